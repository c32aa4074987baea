"""Stops and starts instances.

In economical mode (``StopCharging``) a stopped instance is billed for its disks and addresses. Where that
mode is impossible the API reports no error: the instance stops, and is billed on (ECS user guide,
"Economical mode"; ``StoppedMode`` of DescribeInstances).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gpucloud.clouds.abilities import Power
from gpucloud.resources import Machine, Ref, Resource, State
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.errors import code_of
from gpucloud_alibaba.models import ecs_models

WRONG_STATUS = "IncorrectInstanceStatus"
"""A stop takes a running instance, and a start a stopped one."""


class AlibabaPower(Power):
    """Stops and starts instances.

    Args:
        account: the account.
        get: reads an instance.
    """

    def __init__(self, account: AlibabaAccount, get: Callable[[Ref], Resource]) -> None:
        self._account = account
        self._get = get

    @property
    def timer_deletes(self) -> bool:
        """The release time of an instance releases it with its disks."""
        return True

    def why_not_stop(self, machine: Machine, /, *, local_disks: bool) -> str | None:  # noqa: ARG002
        """Types with local disks have no economical mode."""
        if local_disks:
            return "Alibaba Cloud bills types with local disks also while they are stopped"
        return None

    def stop(self, ref: Ref, /) -> None:
        """Stops an instance in economical mode; one that is stopped already is fine.

        Whether it is billed on shows only when it is read.
        """
        self._account.refuse_foreign(ref)
        asked = ecs_models().StopInstanceRequest(instance_id=ref.id, stopped_mode="StopCharging")
        ecs = self._account.clients.ecs(ref.region)
        self._unless_done(lambda: ecs.stop_instance(asked), ref, {State.STOPPING, State.STOPPED})

    def start(self, ref: Ref, /) -> None:
        """Starts a stopped instance, if its zone has capacity; one that runs is fine."""
        self._account.refuse_foreign(ref)
        asked = ecs_models().StartInstanceRequest(instance_id=ref.id)
        ecs = self._account.clients.ecs(ref.region)
        self._unless_done(lambda: ecs.start_instance(asked), ref, {State.PENDING, State.RUNNING})

    def _unless_done(self, call: Callable[[], object], ref: Ref, done: Collection[State]) -> None:
        """Makes a call; its refusal is fine if an earlier try, whose answer was lost, has done its work."""
        try:
            call()
        except Exception as error:
            if code_of(error) != WRONG_STATUS or self._get(ref).state not in done:
                raise
