"""Budgets: ``client.budgets``. Every launch checks them by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gpucloud.costs.budgets import Standing, standings_ahead
from gpucloud.errors import UsageError
from gpucloud.journal.budgets import Terms
from gpucloud.journal.records import Holding

if TYPE_CHECKING:
    from gpucloud.api.session import Session


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budgets of the journal of one client, which all who share the journal have."""

    _session: Session

    def set(self, name: str, terms: Terms) -> Standing:
        """Gives a budget these terms from now on. In a team's journal only admins may do so.

        Raises:
            ForbiddenError: this login may not.
            UsageError: no rate of exchange is known for its currency.
        """
        if self._session.catalog.market.converted(terms.amount, "USD", terms.currency) is None:
            raise UsageError(
                f"no rate of exchange is known for {terms.currency!r}", hint="use --currency USD, CNY or EUR"
            )
        self._session.journal.set_budget(name, terms, by=self._session.owner)
        return self.show(name)

    def remove(self, name: str) -> None:
        """Removes a budget; raises as :meth:`set`, and if there is none."""
        try:
            self._session.journal.set_budget(name, None, by=self._session.owner)
        except KeyError:
            raise self._unknown(name) from None

    def list(self) -> Sequence[Standing]:
        """Every budget with what it counts now, and the forecast of its period; by name."""
        return self._session.standings(self._session.journal.budgets())

    def of(self, holdings: Sequence[Holding], begun: datetime | None, now: datetime) -> Sequence[Standing]:
        """As :meth:`list`, of holdings that were read already.

        Args:
            holdings: those of all owners, also those that ended.
            begun: when the journal was; ``None`` for an empty one.
            now: the moment.
        """
        budgets = self._session.journal.budgets()
        return standings_ahead(budgets, holdings, begun, now, self._session.catalog.market) if budgets else ()

    def show(self, name: str) -> Standing:
        """One budget with what it counts now.

        Raises:
            UsageError: there is none of this name.
        """
        found = [budget for budget in self._session.journal.budgets() if budget.name == name]
        if not found:
            raise self._unknown(name)
        return self._session.standings(found)[0]

    def _unknown(self, name: str) -> UsageError:
        known = ", ".join(budget.name for budget in self._session.journal.budgets())
        hint = f"there are: {known}" if known else "set one: gpucloud budget set NAME AMOUNT --per month"
        return UsageError(f"there is no budget {name!r}", hint=hint)
