"""Ends boxes, all at the same time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpucloud.ending.discovery import PendingQuery, begin_strays, refuse_strays
from gpucloud.ending.pending import SAY_EVERY_S, incomplete_error, pending_deletions, say_waiting
from gpucloud.ending.reconcile import refresh_all
from gpucloud.ending.teardown import take_down
from gpucloud.ending.unrecorded import end_unrecorded
from gpucloud.errors import CleanupIncompleteError, GpucloudError
from gpucloud.journal.errors import JournalError
from gpucloud.journal.lifecycle import OVER, PendingDeletion
from gpucloud.journal.records import Box, H, Holding
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import ignore
from gpucloud.runtime.isolation import UnforeseenError, isolated
from gpucloud.runtime.tasks import Call
from gpucloud.ssh.client import forget
from gpucloud.ssh.keys import key_folder

BUDGET_S = 600.0
"""How long to wait until all boxes have ended."""
LOOK_S = 5.0
"""How long to wait for the present state of a box before it is deleted."""
AT_ONCE = 16
"""The number of boxes that are ended at the same time."""
SAYING_S = 5.0
"""How much longer to wait for the results after that."""


def end_all(context: Context, boxes: Sequence[H], troubles: list[GpucloudError]) -> list[H]:
    """Ends every box, all at the same time; one that cannot be ended does not hold up the others.

    All share one budget, and one minute after a signal. Where there are more boxes than threads, each box has
    its share of the time: some that never end do not hold up the others.

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
        context.tell("down", f"deleting {', '.join(box.name for box in living)}")
    with context.tasks.finishing():
        ends = _end_in_threads(context, living)
        for box in living:
            with isolated(troubles, f"box {box.name!r}"):
                end = ends.get(box.id)
                if end is None or not end.done:
                    raise incomplete_error(box, pending_deletions(context.journal, box), None)
                ended[box.id] = end.value()
    return [ended[box.id] for box in boxes if box.id in ended]


def _end_in_threads(context: Context, holdings: Sequence[Holding]) -> dict[str, Call]:
    """The ends of boxes, by id, as far as there was time to begin them."""
    tasks = context.tasks
    ends: dict[str, Call] = {}
    with tasks.within(BUDGET_S + SAYING_S):
        for number, holding in enumerate(holdings):
            if not _until_ended(context, holdings, ends, but=AT_ONCE - 1):
                break
            rounds_left = math.ceil(len(holdings) / AT_ONCE) - number // AT_ONCE
            share_s = max(tasks.left_s - SAYING_S, 0.0) / rounds_left
            ends[holding.id] = tasks.start(partial(_end_in_thread, context, holding, share_s))
        _until_ended(context, holdings, ends)
    return ends


def _until_ended(
    context: Context, holdings: Sequence[Holding], ends: Mapping[str, Call], *, but: int = 0
) -> bool:
    """Waits for these ends, but for some, as long as there is time, and says now and then for what."""
    while not context.tasks.until_done(ends.values(), SAY_EVERY_S, but=but):
        if not context.tasks.left_s:
            return False
        going_on = [each for each in holdings if each.id in ends and not ends[each.id].done]
        say_waiting(context, [left for each in going_on for left in _left_of(context, each)])
    return True


def _left_of(context: Context, holding: Holding) -> Sequence[PendingDeletion]:
    """What the journal has of it; nothing from a journal that cannot be read now."""
    try:
        return pending_deletions(context.journal, holding)
    except JournalError:
        return []


def _end_in_thread(context: Context, box: H, budget_s: float) -> H:
    context = replace(context, tasks=context.tasks.for_another_thread(), emit=ignore)
    with context.tasks.within(budget_s):
        return _end_one(context, box)


def _end_one(context: Context, box: H) -> H:
    strays: list[Mapping[str, PendingQuery]] = []
    try:
        # Taken from a living process as well: a pipeline's clean-up runs in another container than its job.
        taken = context.take(box, by_force=True)
        assert taken is not None  # noqa: S101  (by force, nobody keeps it)
        try:
            # A machine that has ended was billed until then; once it is deleted, nothing tells when that was.
            refresh_all(context, [taken], timeout_s=LOOK_S)
            done = take_down(
                context, taken, when_unbilled=lambda: strays.append(begin_strays(context, taken))
            )
            if context.state is not None and isinstance(box, Box):
                forget(key_folder(context.state, box.id), box.id, nodes=len(box.nodes) or 1)
            refuse_strays(context, done, strays[-1] if strays else begin_strays(context, done))
        finally:
            context.journal.release(taken)
    except JournalError as error:
        raise ended_unrecorded(context, box, error, budget_s=BUDGET_S) from error
    return done


def ended_unrecorded(
    context: Context, holding: Holding, broken: GpucloudError, *, budget_s: float
) -> GpucloudError:
    """Ends a box while the journal cannot be written; returns the error that reports it."""
    context = context.about(holding.name)
    context.tell("down", f"{broken.message}; deleting the box anyway")
    try:
        with context.tasks.finishing():
            end_unrecorded(context, holding, budget_s=budget_s)
    except GpucloudError as error:
        return error
    broken.message = f"{holding.name} was deleted, but {broken.message}"
    return broken


def merged(troubles: list[GpucloudError]) -> GpucloudError | None:
    """One error for several boxes: what is left of each, and one command for all; ``None`` for no errors."""
    if not troubles:
        return None
    if len(troubles) == 1 and not isinstance(troubles[0], UnforeseenError):
        return troubles[0]
    commands = list(dict.fromkeys(each.owed_command for each in troubles))
    return CleanupIncompleteError(
        "; ".join(each.message for each in troubles),
        hint=troubles[0].hint,
        left=[left for each in troubles for left in each.left],
        owed_command=commands[0] if len(commands) == 1 and commands[0] else "gpucloud down --all --yes",
    )
