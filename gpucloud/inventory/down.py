"""Ends boxes, all at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpucloud.boxes.teardown import end_unrecorded, owed, owed_error, take_down
from gpucloud.errors import GpucloudError, OwedError
from gpucloud.inventory.discovery import Asked, begin_strays, refuse_strays
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.store import Box, JournalError
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import ignore
from gpucloud.runtime.isolation import UnforeseenError, isolated
from gpucloud.ssh.client import forget
from gpucloud.ssh.keys import key_folder

BUDGET_S = 600.0
"""How long to wait until all boxes have ended."""
SAYING_S = 5.0
"""How much longer to wait for the result of each box after that."""


def end_all(context: Context, boxes: Sequence[Box], troubles: list[GpucloudError]) -> list[Box]:
    """Ends every box, all at the same time; one that cannot be ended does not hold up the others.

    All share one budget, and one minute after a signal.

    Args:
        context: clouds, journal, clock and progress of this call.
        boxes: what to end; those that have ended already are returned unchanged.
        troubles: receives one error per box that could not be ended.

    Returns:
        The boxes that have ended now.
    """
    living = [box for box in boxes if box.state not in OVER]
    ended = {box.id: box for box in boxes if box.state in OVER}
    if living:
        context.tell("down", f"ending {', '.join(box.name for box in living)}")
    with context.tasks.finishing():
        ends = {box.id: context.tasks.start(partial(_end_in_thread, context, box)) for box in living}
        context.tasks.until_done(ends.values(), BUDGET_S + SAYING_S)
        for box in living:
            with isolated(troubles, f"box {box.name!r}"):
                if not ends[box.id].done:
                    raise owed_error(box, owed(context, box), None)
                ended[box.id] = ends[box.id].value()
    return [ended[box.id] for box in boxes if box.id in ended]


def _end_in_thread(context: Context, box: Box) -> Box:
    context = replace(context, tasks=context.tasks.for_another_thread(), emit=ignore)
    with context.tasks.within(BUDGET_S):
        return _end_one(context, box)


def _end_one(context: Context, box: Box) -> Box:
    strays: list[Mapping[str, Asked]] = []
    try:
        # Taken from a living process as well: a pipeline's clean-up runs in another container than its job.
        taken = context.take(box, by_force=True)
        assert taken is not None  # noqa: S101  (by force, nobody keeps it)
        try:
            done = take_down(
                context, taken, when_unbilled=lambda: strays.append(begin_strays(context, taken))
            )
            if context.state is not None:
                forget(key_folder(context.state, box.id), box.id, nodes=len(box.nodes) or 1)
            refuse_strays(context, done, strays[-1] if strays else begin_strays(context, done))
        finally:
            context.journal.release(taken)
    except JournalError as error:
        raise ended_unrecorded(context, box, error, budget_s=BUDGET_S) from error
    return done


def ended_unrecorded(context: Context, box: Box, broken: GpucloudError, *, budget_s: float) -> GpucloudError:
    """Ends a box while the journal cannot be written; returns the error that reports it."""
    context.tell("down", f"{broken.message}; ending the box anyway")
    try:
        with context.tasks.finishing():
            end_unrecorded(context, box, budget_s=budget_s)
    except GpucloudError as error:
        return error
    broken.message = f"{box.name} was ended, but {broken.message}"
    return broken


def merged(troubles: list[GpucloudError]) -> GpucloudError | None:
    """One error for several boxes: what is left of each, and one command for all; ``None`` for no errors."""
    if not troubles:
        return None
    if len(troubles) == 1 and not isinstance(troubles[0], UnforeseenError):
        return troubles[0]
    commands = list(dict.fromkeys(each.owed_command for each in troubles))
    return OwedError(
        "; ".join(each.message for each in troubles),
        hint=troubles[0].hint,
        left=[left for each in troubles for left in each.left],
        owed_command=commands[0] if len(commands) == 1 and commands[0] else "gpucloud down --all --yes",
    )
