"""Checks the budgets of the journal in the transaction that plans a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from gpucloud.costs.budgets import refuse_over, since_of, standings, warnings
from gpucloud.journal.budgets import Budget
from gpucloud.journal.records import Box
from gpucloud.journal.store import BilledSince
from gpucloud_pricing import Market


class BudgetCheck:
    """Refuses a box that would exceed a budget; see :data:`gpucloud.journal.store.Limits`.

    Args:
        market: for exchange rates, and how clouds bill.
        clock: gives the time in UTC.
    """

    def __init__(self, market: Market, clock: Callable[[], datetime]) -> None:
        self._market, self._clock = market, clock
        self.warnings: Sequence[str] = ()
        """What to tell once the box is planned."""

    def __call__(self, plan: Box, budgets: Sequence[Budget], billed_since: BilledSince) -> None:
        """Counts as of this moment.

        Raises:
            BudgetError: a budget would be exceeded.
        """
        now = self._clock()
        found = standings(budgets, billed_since(since_of(budgets, now)), now, self._market, plan)
        refuse_over(found)
        self.warnings = warnings(found)
