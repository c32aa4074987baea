"""Stops and starts instances.

In economical mode (``StopCharging``) a stopped instance is billed for its disks and addresses. Where that
mode is impossible the API reports no error: the instance stops, and is billed on (ECS user guide,
"Economical mode"; ``StoppedMode`` of DescribeInstances).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gpucloud.resources import Ref, State
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.errors import code_of
from gpucloud_alibaba.models import ecs_models

WRONG_STATUS = "IncorrectInstanceStatus"
"""A stop takes a running instance, and a start a stopped one."""


def why_not_stop(*, local_disks: bool) -> str | None:
    """Why an instance would be billed on while it is stopped, as a clause."""
    if local_disks:
        return "Alibaba Cloud bills types with local disks also while they are stopped"
    return None


def stop(clients: Clients, ref: Ref, state: Callable[[], State]) -> None:
    """Requests the stop; one that is stopped already is fine. ``state`` reads the instance's state."""
    asked = ecs_models().StopInstanceRequest(instance_id=ref.id, stopped_mode="StopCharging")
    ecs = clients.ecs(ref.region)
    _unless_done(lambda: ecs.stop_instance(asked), state, {State.STOPPING, State.STOPPED})


def start(clients: Clients, ref: Ref, state: Callable[[], State]) -> None:
    """Requests the start; one that runs is fine. ``state`` reads the instance's state."""
    asked = ecs_models().StartInstanceRequest(instance_id=ref.id)
    ecs = clients.ecs(ref.region)
    _unless_done(lambda: ecs.start_instance(asked), state, {State.PENDING, State.RUNNING})


def _unless_done(call: Callable[[], object], state: Callable[[], State], done: Collection[State]) -> None:
    """Makes a call; its refusal is fine if an earlier try, whose answer was lost, has done its work."""
    try:
        call()
    except Exception as error:
        if code_of(error) != WRONG_STATUS or state() not in done:
            raise
