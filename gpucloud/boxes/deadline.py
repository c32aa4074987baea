"""A new deadline for a box that exists and can be reached."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta

from gpucloud.boxes.look import holding
from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.ingress import reach
from gpucloud.ending.deadline import check_movable
from gpucloud.ending.deadline import extend as move_end
from gpucloud.ending.reconcile import refresh
from gpucloud.errors import UsageError
from gpucloud.journal.records import Box
from gpucloud.journal.runs import RunState
from gpucloud.planning.access import begin_reading, reading_of, refuse_wrong
from gpucloud.policy.budget_check import check_of
from gpucloud.purchase.policy_check import refuse_later_end
from gpucloud.runtime.context import Context
from gpucloud.ssh.keys import key_folder

WAIT_S = 5.0
"""How long another process is waited for that works on the box: most are done with it in a second."""

Confirm = Callable[[datetime | None, datetime], bool]
"""Is asked before a deadline is moved forward: from when, to when."""


def extend(
    context: Context, box: Box, lives: timedelta | None, *, add: bool = False, confirm: Confirm | None = None
) -> Box:
    """Moves the deadline of a box. Its nodes are reached first: nothing is moved if one cannot be reached.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        lives: the time from now to the deadline; ``None`` for no deadline.
        add: whether that time is added to the present deadline.
        confirm: is asked before the deadline becomes earlier; by default, nothing is confirmed.

    Raises:
        UsageError: its deadline cannot be moved, this clock is wrong, another process holds the box, there
            is no deadline to add to, or ``confirm`` returned ``False``.
        PolicyError: the policy forbids so late an end.
        BudgetError: the later end would exceed a budget.
        ConnectionFailedError: a node cannot be reached.
        CloudError: the cloud refused.
    """
    context = context.about(box.name)
    assert context.state is not None  # noqa: S101  (the keys are there)
    check_movable(context, box)
    end = _end(context, box, lives, add=add)
    refuse_later_end(context, box, end)
    sooner = end is not None and (box.expires_at is None or end < box.expires_at)
    if confirm is not None and end is not None and sooner and not confirm(box.expires_at, end):
        raise UsageError(f"the deadline of {box.name!r} was not changed")
    asked = begin_reading(context, context.clouds.usable(box.cloud))
    begun = _beside_run(context, box) if _is_of_run(context, box) else holding(context, box, within_s=WAIT_S)
    with begun as seen:
        check_movable(context, seen)
        refuse_wrong(context, reading_of(context, asked))
        nodes = targets(seen, key_folder(context.state, box.id), context.proxy_command)
        for node in nodes:
            reach(context, seen, node)
        limits = check_of(context, "the deadline was not changed")
        return move_end(context, seen, nodes, _end(context, seen, lives, add=add), limits)


def _is_of_run(context: Context, box: Box) -> bool:
    """Whether a box is held by a process that waits there for the command of its run."""
    if not box.attended or box.run_id is None or context.may_take(box.lease):
        return False
    runs = context.journal.runs_named(box.owner, box.run_id)
    return any(
        run.box == box.id and run.state is RunState.RUNNING and not context.may_take(run.lease)
        for run in runs
    )


@contextmanager
def _beside_run(context: Context, box: Box) -> Generator[Box]:
    """A box that a run holds for as long as its command runs, with its state as its cloud has just shown it.

    That process moves no deadline meanwhile. What is written about the box is refused once it was taken over.

    Raises:
        UsageError: its command has ended meanwhile, and the box with it.
        StaleWriterError: it was taken over.
    """
    refresh(context, box)
    yield context.journal.held(box)
    check_movable(context, context.journal.held(box))


def _end(context: Context, box: Box, lives: timedelta | None, *, add: bool) -> datetime | None:
    """The new deadline.

    Raises:
        UsageError: time is to be added, and there is no deadline.
    """
    if lives is None:
        return None
    if not add:
        return context.clock().replace(microsecond=0) + lives
    if box.expires_at is None:
        raise UsageError(
            f"{box.name!r} has no deadline to add to",
            hint=f"set one from now: gpucloud extend {box.name} --ttl 12h",
        )
    return box.expires_at + lives
