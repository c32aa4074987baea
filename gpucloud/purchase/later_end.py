"""Holds a later end against the policy and the budgets: what lasts longer costs more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from gpucloud.ending.stopping import KEEP
from gpucloud.errors import BudgetError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.policy.budget_check import check_of
from gpucloud.policy.rules import refuse_end
from gpucloud.runtime.context import Context


def refuse_later_end(context: Context, box: Box, end: datetime | None) -> None:
    """Refuses to move the end of a box beyond what the policy allows; an earlier end than now is no matter.

    Raises:
        PolicyError: the new end is later, and too far off.
    """
    if end is None or (box.expires_at is not None and end > box.expires_at):
        lives = None if end is None else end - context.clock().replace(microsecond=0)  # as ends are
        refuse_end(context.journal.rules(), lives, "the deadline was not changed")


def end_of_keep(context: Context, box: Box, keep: timedelta | None) -> datetime:
    """Until when a box that is stopped now is kept.

    Nobody is kept from stopping: without a time from the user it is as long as the policy allows, and a
    budget that does not reach so far is a warning.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box, running or stopped.
        keep: the user's time; ``None`` for 7 days.

    Raises:
        PolicyError: the policy forbids to keep a box for so long.
        BudgetError: what is billed of it until then would exceed a budget.
    """
    rules, now = context.journal.rules(), context.clock().replace(microsecond=0)
    if keep is not None:
        refuse_end(rules, keep, "nothing was stopped", "--keep")
    end = now + (keep or (KEEP if rules.ttl is None else min(KEEP, rules.ttl)))
    limits = check_of(context, "nothing was stopped" if keep else "it is stopped all the same")
    if limits is not None:
        try:
            limits.look(context.journal, _stopped(box, end, now))
        except BudgetError as error:
            error.hint = f"use a shorter time: gpucloud stop {box.name} --keep 12h"
            if keep is not None:
                raise
            context.warn("stop", error.message, error.hint)
    return end


def _stopped(box: Box, end: datetime, now: datetime) -> Box:
    """A box as it will be once it is stopped: only its compute is billed no longer."""
    usage = (
        replace(each, end=now) if each.part == "compute" and each.end is None else each for each in box.usage
    )
    return replace(box, state=BoxState.STOPPED, expires_at=end, keep_until=end, usage=tuple(usage))
