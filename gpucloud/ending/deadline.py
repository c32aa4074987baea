"""Sets and moves the deadline of a box in every layer, or reports the layers that still have the old one.

A box ends by the first of several layers: the journal's deadline, the cloud's timer, the guard on each node.
The journal never has a later end than every other layer: it is moved first to an earlier end, and last to a
later one. So a command that dies in the middle leaves a box that ends at one of the two times, and never
later than the journal says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from gpucloud.clouds.abilities import Deadlines, KnownTimers
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import BudgetError, GpucloudError, UsageError
from gpucloud.journal.events import Extended, Made, Seen, named
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.policy.budget_check import BudgetCheck
from gpucloud.resources import End, Machine, Ref, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import TimedOutError
from gpucloud.ssh.client import Target
from gpucloud.ssh.guard import move_end

ARM_TIMEOUT_S = 180.0


def ensure_end(context: Context, box: Box, cloud: Cloud, machines: Sequence[Machine], end: End) -> None:
    """Sets the cloud's timers that end machines of a box, and journals the timers.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box of the machines; the journal has their ids.
        cloud: the cloud of the machines.
        machines: all of one region.
        end: when they end, and the identities that the cloud needs for it.

    Raises:
        CloudError: one of them has no timer. It keeps running.
    """
    known = KnownTimers(context.journal.box(box.id).timers, partial(note_timers, context, box))

    def arm() -> Sequence[Ref]:
        return cloud.ask(
            Deadlines,
            "set the timer that ends the box",
            lambda deadlines: deadlines.ensure_end(machines, end, known.all, known.learn),
            lacking=(),
        )

    try:
        made = context.tasks.run(arm, ARM_TIMEOUT_S)
    except TimedOutError as error:
        raise cloud.late(f"could not set the timer that ends the box: {error}") from error
    for ref in made:
        context.journal.write(box, Made(resource=named(ref)))


def move_timers(
    cloud: Cloud, resources: Sequence[Ref], expires_at: datetime | None, known: KnownTimers
) -> Sequence[str]:
    """Moves the cloud's own deadline of resources, and their tags; returns the timers in force."""
    return cloud.ask(
        Deadlines,
        "move the deadline of the box",
        lambda deadlines: deadlines.extend(resources, expires_at, known.all, known.learn),
        lacking=(),
    )


def note_timers(context: Context, box: Box, timers: Sequence[str]) -> None:
    """Writes down which timers of the cloud end a box: all that are in force."""
    context.journal.write(box, Seen(facts=Facts(timers=tuple(timers))))


CALL_TIMEOUT_S = 120.0


class HalfMovedError(GpucloudError):
    """Some layers of a box have the new deadline, and some the old one."""


def extend(
    context: Context,
    box: Box,
    nodes: Sequence[Target],
    expires_at: datetime | None,
    limits: BudgetCheck | None = None,
) -> Box:
    """Moves every layer to a new end.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a box that this process holds, and that :func:`check_movable` accepts.
        nodes: how to reach its nodes.
        expires_at: the new end; ``None`` for none.
        limits: refuses a later end: the budgets of the journal.

    Returns:
        The box as it is now.

    Raises:
        BudgetError: the later end would exceed a budget; nothing was changed.
        CloudError: the cloud did not move its timer. The guards still have the old end.
        HalfMovedError: the cloud did, but not every guard. A repeated call continues.
    """
    later = expires_at is None or (box.expires_at is not None and expires_at > box.expires_at)
    if not later:
        context.journal.write(box, Extended(expires_at=expires_at))
    elif limits is not None:
        limits.look(context.journal, replace(box, expires_at=expires_at))
    _move(context, box, nodes, expires_at)
    if later:
        try:
            context.journal.write(box, Extended(expires_at=expires_at), limits=limits)
        except BudgetError:  # somebody else has taken the room meanwhile
            _move(context, box, nodes, box.expires_at)
            raise
    for text in limits.warnings if limits else ():
        context.warn("extend", text)
    return context.journal.held(box)


def _move(context: Context, box: Box, nodes: Sequence[Target], expires_at: datetime | None) -> None:
    """Moves the ends of the cloud and of the guards."""
    context.tell("extend", f"moving the deadline at {box.cloud}")
    with context.tasks.finishing():
        move_cloud_end(context, box, expires_at)
        context.tell("extend", "moving the deadline on the box")
        _move_guards(context, box, nodes, expires_at)


def move_cloud_end(context: Context, box: Box, expires_at: datetime | None) -> None:
    """Moves the cloud's own deadline of a box, and the tag of all its resources; ``None`` is no deadline.

    Raises:
        CloudError: the cloud refused.
    """
    cloud = context.clouds.usable(box.cloud)
    gone = {node.instance_id for node in box.nodes if node.state is State.GONE}
    rows = context.journal.resources(box.id)
    resources = [row.ref for row in rows if row.state == "made" and row.ref.id not in gone]
    timers = context.journal.box(box.id).timers
    note = partial(note_timers, context, box)
    with about(box=box.id):
        moved = partial(move_timers, cloud, resources, expires_at, KnownTimers(timers, note))
        note(context.tasks.run(moved, CALL_TIMEOUT_S))


def check_movable(context: Context, box: Box) -> None:
    """Refuses a box that has no end that could be moved.

    Raises:
        UsageError: the box is not ready, or past its end.
    """
    over = box.expires_at is not None and box.expires_at < context.clock()
    if box.state is not BoxState.READY or over:
        state = "past its end" if box.state is BoxState.READY else str(box.state)
        raise UsageError(
            f"the deadline of {box.name!r} cannot be moved: its state is {state}",
            hint=f"see its state: gpucloud show {box.name} --live",
        )


def _move_guards(context: Context, box: Box, nodes: Sequence[Target], expires_at: datetime | None) -> None:
    left_s = None if expires_at is None else (expires_at - context.clock()).total_seconds()
    calls = [context.tasks.start(partial(move_end, node, expires_at, left_s=left_s)) for node in nodes]
    for node, call in zip(nodes, calls, strict=True):
        try:
            context.tasks.wait(call, CALL_TIMEOUT_S)
        except (GpucloudError, TimedOutError) as error:
            raise HalfMovedError(
                f"the guard of {node.alias} still has the old deadline: {error}",
                hint=f"repeat the command; until then {box.name} ends at the earlier of the two deadlines",
            ) from error
