"""Stops and starts instances.

A stopped instance is billed for its disks alone, loses its own public address, and is not certain to find
capacity in its zone again (EC2 User Guide, "Stop and start Amazon EC2 instances").
"""

from __future__ import annotations

from typing import assert_never

from gpucloud.clouds.abilities import Power
from gpucloud.resources import Machine, Ref
from gpucloud_aws.account import AwsAccount
from gpucloud_pricing.purchases import Purchase


class AwsPower(Power):
    """Stops and starts instances."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    @property
    def timer_deletes(self) -> bool:
        """The schedule terminates instances, stopped ones as well."""
        return True

    def why_not_stop(self, machine: Machine, /, *, local_disks: bool) -> str | None:  # noqa: ARG002  (they are lost)
        """A Spot instance of a one-time request cannot be stopped.

        Source: the message of UnsupportedOperation, "You can't stop the Spot Instance ... because it is
        associated with a one-time Spot Instance request".
        """
        match machine.purchase:
            case Purchase.SPOT:
                return "AWS does not stop Spot instances of a one-time request"
            case Purchase.ON_DEMAND | Purchase.RESERVED:
                return None
            case _:
                assert_never(machine.purchase)

    def stop(self, ref: Ref, /) -> None:
        """Stops an instance: its disks are billed on. One that stops or is stopped already is fine."""
        self._account.refuse_foreign(ref)
        self._account.clients.ec2_once(ref.region).stop_instances(InstanceIds=[ref.id])

    def start(self, ref: Ref, /) -> None:
        """Starts a stopped instance, if its zone has capacity. One that runs is fine."""
        self._account.refuse_foreign(ref)
        self._account.clients.ec2_once(ref.region).start_instances(InstanceIds=[ref.id])
