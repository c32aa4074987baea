"""A new deadline for a box that exists and can be reached."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from gpucloud.boxes.holding import holding
from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.ingress import reach
from gpucloud.ending.deadline import check_movable
from gpucloud.ending.deadline import extend as move_end
from gpucloud.errors import UsageError
from gpucloud.journal.records import Box
from gpucloud.planning.clock_check import begin_reading, reading_of, refuse_wrong
from gpucloud.policy.budget_check import check_of
from gpucloud.purchase.later_end import refuse_later_end
from gpucloud.runtime.context import Context
from gpucloud.ssh.keys import key_folder

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
    with holding(context, box) as seen:
        check_movable(context, seen)
        refuse_wrong(context, reading_of(context, asked))
        nodes = targets(seen, key_folder(context.state, box.id), context.proxy_command)
        for node in nodes:
            reach(context, seen, node)
        limits = check_of(context, "the deadline was not changed")
        return move_end(context, seen, nodes, _end(context, seen, lives, add=add), limits)


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
