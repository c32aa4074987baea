"""Checks the budgets of the journal in the transaction that plans a box, or lets it cost more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from gpucloud.costs.budgets import (
    EarlierEnd,
    earlier_end,
    matches,
    refuse_over,
    since_of,
    standings,
    to_end,
    warnings,
)
from gpucloud.journal.budgets import Budget, BudgetAction
from gpucloud.journal.lifecycle import LEAST_LIFE, BoxState
from gpucloud.journal.records import Box, Holding
from gpucloud.journal.store import BilledSince, Journal, Limits
from gpucloud.runtime.context import Context

if TYPE_CHECKING:
    from gpucloud_pricing import Market


class BudgetCheck:
    """Refuses a box that would exceed a budget; see :data:`gpucloud.journal.store.Limits`.

    Args:
        market: gives exchange rates, and how clouds bill; it is called if there is a budget.
        clock: gives the time in UTC.
        outcome: what a refusal says was not done.
    """

    def __init__(
        self, market: Callable[[], Market], clock: Callable[[], datetime], outcome: str = "nothing was bought"
    ) -> None:
        self._market, self._clock, self._outcome = market, clock, outcome
        self.warnings: Sequence[str] = ()
        """What to tell once it is written."""

    def __call__(self, plan: Holding, budgets: Sequence[Budget], billed_since: BilledSince) -> None:
        """Counts as of this moment.

        Raises:
            BudgetError: a budget would be exceeded.
        """
        now = self._clock()
        found = standings(budgets, billed_since(since_of(budgets, now)), now, self._market(), plan)
        refuse_over(found, self._outcome)
        self.warnings = warnings(found)

    def until(self, end: datetime | None) -> Limits:
        """The same check of a box that is to end then; ``None`` for never."""
        return lambda plan, budgets, billed_since: self(replace(plan, expires_at=end), budgets, billed_since)

    def look(self, journal: Journal, plan: Holding) -> None:
        """Checks before anything is written, what is checked again when it is.

        Raises:
            BudgetError: a budget would be exceeded.
        """
        if budgets := journal.budgets():
            self(plan, budgets, journal.billed_since)


def check_of(context: Context, outcome: str = "nothing was bought") -> BudgetCheck | None:
    """The check of a call; ``None`` for one that was given no market."""
    return None if context.market is None else BudgetCheck(context.market, context.clock, outcome)


def end_of_budgets(
    context: Context, market: Market, plan: Box, budgets: Sequence[Budget]
) -> EarlierEnd | None:
    """When one of these budgets ends a box that is planned; ``None`` if its own end is earlier.

    Raises:
        BudgetError: the budget has no room for a box.
    """
    budgets = [each for each in budgets if each.terms.action is BudgetAction.DOWN]
    if not budgets:
        return None
    now = context.clock()
    boxes = context.journal.billed_since(since_of(budgets, now))
    return earlier_end(standings(budgets, boxes, now, market, plan), now, LEAST_LIFE)


def ending_budgets(context: Context, box: Box) -> list[str]:
    """The budgets that end a box once they are used up, by name."""
    budgets = [each for each in context.journal.budgets() if each.terms.action is BudgetAction.DOWN]
    return [each.name for each in budgets if matches(each.terms.match, box)]


def used_up(context: Context, living: Sequence[Holding]) -> dict[str, str]:
    """Those of an owner's boxes that a budget ends now: the name of the budget by their ids."""
    if context.market is None or not any(box.state is BoxState.READY for box in living):
        return {}
    budgets = [each for each in context.journal.budgets() if each.terms.action is BudgetAction.DOWN]
    if not budgets:
        return {}
    now = context.clock()
    boxes = context.journal.billed_since(since_of(budgets, now))
    own = {box.id for box in living if context.may_take(box.lease)}
    found = to_end(budgets, boxes, now, context.market())
    return {box: budget for box, budget in found.items() if box in own}
