"""Budgets: ``client.budgets``. Every launch checks them by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gpucloud.costs.budgets import Standing, standings_ahead
from gpucloud.errors import UsageError
from gpucloud.journal.budgets import Match, Terms
from gpucloud.journal.records import Holding
from gpucloud.resources import OWNER_ID
from gpucloud.spec.fields import tags
from gpucloud_pricing.gpu_models import BY_NAME
from gpucloud_pricing.suggestions import closest

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
            UsageError: no rate of exchange is known for its currency, or nothing could ever match it.
        """
        self._refuse_unmatched(terms.match)
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

    def _refuse_unmatched(self, match: Match) -> None:
        """Refuses clouds, GPUs, owners and tags that nothing can have: such a budget would guard nothing."""
        clouds = {cloud for cloud, _ in self._session.catalog.market.types}
        for key, values, known in (("cloud", match.clouds, clouds), ("gpu", match.gpus, set(BY_NAME))):
            folded = {name.lower(): name for name in sorted(known)}
            for value in values:
                if value.lower() not in folded:
                    begun = [low for low in folded if value.lower().startswith(low)]
                    close = sorted(begun, key=len)[-1:] or closest(value.lower(), folded)
                    near = f"; did you mean {folded[close[0]]}?" if close else ""
                    raise UsageError(
                        f"--match {key}={value}: nothing is called so{near}",
                        hint=f"use one of {', '.join(sorted(known))}",
                    )
        for owner in match.owners:
            if not OWNER_ID.fullmatch(owner):
                raise UsageError(f"--match owner={owner}: no owner id is like this")
        for tag in match.tags:
            try:
                tags(dict([tag]))
            except ValueError as error:
                raise UsageError(f"--match tag={':'.join(tag)}: {error}") from None

    def _unknown(self, name: str) -> UsageError:
        known = ", ".join(budget.name for budget in self._session.journal.budgets())
        hint = f"there are: {known}" if known else "set one: gpucloud budget set NAME AMOUNT --per month"
        return UsageError(f"there is no budget {name!r}", hint=hint)
