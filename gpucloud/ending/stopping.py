"""Stops the machine of a box: from then on only its disk and the address that it keeps are billed.

Before the stop the guard is told when the stopped box is deleted: the end of its first life passes while the
machine is off, and who starts it in the console would lose the disk to it. Whatever starts the machine, it
ends when the journal says.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from gpucloud.clouds.abilities import Power
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.ending.deadline import move_cloud_end
from gpucloud.ending.settlement import same_account
from gpucloud.errors import (
    RULES,
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    Next,
    UsageError,
)
from gpucloud.journal.events import Extended, StateChanged
from gpucloud.journal.facts import Facts, Node, node_of
from gpucloud.journal.lifecycle import HANDED_OVER, BoxState, PendingDeletion
from gpucloud.journal.records import Box
from gpucloud.resources import Machine, Ref, State, short_id
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S
from gpucloud.ssh.client import Target, disconnect
from gpucloud.ssh.guard import move_end

KEEP = timedelta(days=7)
"""How long a stopped box is kept by default."""
LEAST_KEEP = timedelta(hours=1)
REST_TIMEOUT_S = 600.0


def refuse_unstoppable(box: Box) -> None:
    """Refuses a box of which the journal tells that it cannot be stopped.

    Raises:
        UsageError: says why.
    """
    reason = None
    if box.state not in HANDED_OVER:
        reason = f"its state is {box.shown_state}"
    elif box.setup_error:
        reason = "its set-up failed"
    elif len(box.nodes) != 1:
        reason = "only a box with one node can be stopped"
    if reason is not None:
        raise UsageError(
            f"{box.name!r} cannot be stopped: {reason}",
            hint=f"see its state: gpucloud show {box.name} --live; delete it: gpucloud down {box.name}",
        )


def refuse_where_billed_on(context: Context, box: Box, *, local_disks: bool) -> Machine:
    """Refuses a machine whose compute its cloud cannot cease to bill without deleting it.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a box that :func:`refuse_unstoppable` accepts.
        local_disks: whether its type has disks of the host.

    Returns:
        The machine as its cloud shows it.

    Raises:
        UsageError: it cannot be stopped; nothing was changed.
        CloudError: the cloud did not tell.
    """
    cloud = context.clouds.usable(box.cloud)
    machine = context.tasks.run(partial(cloud.get, box.machine(0)), CALL_TIMEOUT_S)
    if not isinstance(machine, Machine) or machine.state is State.GONE:
        raise UsageError(f"the machine of {box.name!r} is gone", hint="see its state: gpucloud list --live")
    reason = _why_not(cloud, machine, local_disks=local_disks)
    if reason is not None:
        raise UsageError(
            f"{box.name!r} cannot be stopped: {reason}",
            hint=f"save what you need, then delete it: gpucloud down {box.name}",
        )
    return machine


def stop(context: Context, box: Box, node: Target, keep_until: datetime) -> Box:
    """Stops the machine of a box and waits until its compute is billed no longer.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a box in state ``ready`` that this process holds and that can be reached.
        node: how to reach it.
        keep_until: when the stopped box is deleted.

    Raises:
        GpucloudError: its guard or its cloud refused; the box runs on as before.
        CleanupIncompleteError: it is not known to be stopped, or it is billed on.
    """
    stopping = _stopping(context, box, keep_until)
    context.tell("stop", "setting the box's own timer")
    try:
        tell_guard(context, node, keep_until)
    except GpucloudError:
        context.journal.write(box, StateChanged(state=BoxState.READY))
        raise
    disconnect(node)
    try:
        with about(box=box.id):
            _ask(context, stopping, same_account(context, box.cloud, box.machine(0).account))
    except CloudError as error:
        if RULES[ErrorClass(error.error_class)].next is Next.AGAIN:  # it may have been accepted
            raise unfinished(box, str(error)) from error
        _run_on(context, box, node)
        raise
    return _wait(context, stopping, asked=True)


def tell_guard(context: Context, node: Target, end: datetime | None) -> None:
    """Tells the guard of a box when the box ends, by the clock and by uptime.

    Raises:
        GpucloudError: it could not be reached, or did not accept it.
    """
    left_s = None if end is None else (end - context.clock()).total_seconds()
    context.tasks.run(partial(move_end, node, end, left_s=left_s))


def stop_again(context: Context, box: Box, keep_until: datetime) -> Box:
    """Stops a machine that somebody else started, or that its cloud bills on.

    Raises:
        CleanupIncompleteError: it is not known to be stopped.
    """
    return _wait(context, _stopping(context, box, keep_until))


def _stopping(context: Context, box: Box, keep_until: datetime) -> Box:
    context.journal.write(box, StateChanged(state=BoxState.STOPPING, facts=Facts(keep_until=keep_until)))
    return context.journal.held(box)


def _wait(context: Context, box: Box, *, asked: bool = False) -> Box:
    """Waits until the machine of a box is stopped.

    Raises:
        CleanupIncompleteError: it is not known to be stopped.
    """
    try:
        stopped = rest(context, box, asked=asked)
    except CloudError as error:
        raise unfinished(box, str(error)) from error
    if stopped is None:
        raise unfinished(box, f"its machine has not stopped after {REST_TIMEOUT_S:.0f} seconds")
    return stopped


def rest(context: Context, box: Box, timeout_s: float = REST_TIMEOUT_S, *, asked: bool = False) -> Box | None:
    """Makes sure that the machine of a box is stopped, after a stop or a start that was begun.

    May be cut off anywhere and repeated by another process. A box whose machine is gone becomes ``deleting``.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a box in state ``stopping`` or ``starting`` that this process holds.
        timeout_s: how long to wait for the cloud.
        asked: whether this process has requested the stop already.

    Returns:
        The box, whose machine may be billed on; ``None`` if the machine has not stopped in time.
    """
    if box.state is BoxState.STARTING:
        context.journal.write(box, StateChanged(state=BoxState.STOPPING))
    pause_s = 0.1
    with context.tasks.within(timeout_s), about(box=box.id):
        cloud = same_account(context, box.cloud, box.machine(0).account)
        while True:
            machine = context.tasks.run(partial(cloud.get, box.machine(0)), CALL_TIMEOUT_S)
            if not isinstance(machine, Machine) or machine.state is State.GONE:
                context.journal.write(box, StateChanged(state=BoxState.DELETING))
                return context.journal.held(box)
            if machine.state is State.STOPPED and (asked or not machine.billed):
                return _at_rest(context, box, machine, end_moved=asked and timer_deletes(cloud))
            if machine.state is not State.STOPPING and not asked:
                _ask(context, box, cloud)
                asked = True
            if not context.tasks.left_s:
                return None
            context.tasks.pause(pause_s)
            pause_s = min(pause_s * 1.5, 2.0)


def keep_end(context: Context, box: Box) -> datetime:
    """When a box that is or will be stopped is deleted."""
    return box.keep_until or box.expires_at or context.clock().replace(microsecond=0) + KEEP


def _ask(context: Context, box: Box, cloud: Cloud) -> None:
    """Requests the stop; a timer that would delete the stopped machine is moved before."""
    if timer_deletes(cloud):
        move_cloud_end(context, box, keep_end(context, box))
    context.tell("stop", f"stopping {short_id(box.machine(0).id)}")
    context.tasks.run(partial(_stop, cloud, box.machine(0)), CALL_TIMEOUT_S)


def _stop(cloud: Cloud, machine: Ref) -> None:
    cloud.ask(Power, "stop the instance", lambda power: power.stop(machine))


def timer_deletes(cloud: Cloud) -> bool:
    """Whether the timer of a cloud deletes a stopped machine with its disks."""
    power = cloud.ability(Power)
    return power is not None and power.timer_deletes


def _why_not(cloud: Cloud, machine: Machine, *, local_disks: bool) -> str | None:
    power = cloud.ability(Power)
    if power is None:
        return f"{cloud.name} cannot stop machines"
    return power.why_not_stop(machine, local_disks=local_disks)


def _at_rest(context: Context, box: Box, machine: Machine, *, end_moved: bool) -> Box:
    """Journals that a machine is stopped; its new deadline is written before the state that needs it.

    A timer that only ends the bill of a running machine has not been moved before, nor has that of a machine
    that somebody else stopped.
    """
    end = keep_end(context, box)
    if not end_moved:
        move_cloud_end(context, box, end)
    context.journal.write(box, Extended(expires_at=end))
    news = Facts(nodes=(_stopped_node(context, box, machine),), keep_until=end, guards=())
    context.journal.write(box, StateChanged(state=BoxState.STOPPED, facts=news))
    return context.journal.held(box)


def _stopped_node(context: Context, box: Box, machine: Machine) -> Node:
    node = node_of(machine)
    ended_at = None if machine.billed else box.nodes[0].ended_at or machine.ended_at or context.clock()
    return replace(node, ended_at=ended_at)


def _run_on(context: Context, box: Box, node: Target) -> None:
    """Takes back a stop that the cloud refused: the box has its old deadline everywhere again."""
    with context.tasks.finishing():
        move_cloud_end(context, box, box.expires_at)
        tell_guard(context, node, box.expires_at)
        context.journal.write(box, StateChanged(state=BoxState.READY))


def refuse_billed_on(box: Box) -> None:
    """Reports a machine that stopped and whose compute is billed on.

    Raises:
        CleanupIncompleteError: it is so.
    """
    if any(node.billed for node in box.nodes):
        raise CleanupIncompleteError(
            f"{box.name!r} is stopped, but {box.cloud} bills its compute on",
            hint=f"its cloud cannot stop the bill of this machine; start it again: gpucloud start {box.name}",
            left=[_pending(box)],
            owed_command=f"gpucloud down {box.name} --yes",
        )


def unfinished(box: Box, why: str) -> CleanupIncompleteError:
    """The error for a machine that is not known to be stopped."""
    return CleanupIncompleteError(
        f"{box.name!r} may still run and be billed: {why}",
        hint="the next command that changes a box continues with this",
        left=[_pending(box)],
        owed_command=f"gpucloud stop {box.name} --yes",
    )


def _pending(box: Box) -> dict[str, object]:
    owed = PendingDeletion(
        ref=box.machine(0), name=box.name, price_per_hour=box.price_per_hour, currency=box.currency
    )
    return owed.as_dict()
