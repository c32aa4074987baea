"""Stops and starts instances.

A stopped instance is billed for its disks alone, loses its own public address, and is not certain to find
capacity in its zone again (EC2 User Guide, "Stop and start Amazon EC2 instances").
"""

from __future__ import annotations

from typing import Any, assert_never

from gpucloud.resources import Machine
from gpucloud_pricing.purchases import Purchase


def why_not_stop(machine: Machine) -> str | None:
    """Why an instance cannot be stopped, as a clause.

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


def stop(ec2: Any, instance_id: str) -> None:
    """Requests the stop. One that stops or is stopped already is fine."""
    ec2.stop_instances(InstanceIds=[instance_id])


def start(ec2: Any, instance_id: str) -> None:
    """Requests the start. One that runs is fine."""
    ec2.start_instances(InstanceIds=[instance_id])
