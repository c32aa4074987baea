"""Forecasts the cost of a period: what was spent, what is committed, and new boxes as in the last days.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import mean, quantiles
from typing import TYPE_CHECKING

from gpucloud.journal.records import Holding
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.costs.documents import ForecastDocument

DAYS = 14
"""Of how many past days, in UTC and without today, the new boxes are expected again."""
LEAST_DAYS = 7
"""Of fewer days nothing is expected: the forecast is flat."""
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The cost of a whole period, in one currency.

    Attributes:
        amount: with new boxes as on the mean of the last days.
        low: as on the 10th percentile of these days.
        high: as on the 90th percentile.
        days: how many days are known; of too few nothing is expected, and the three are the same.
    """

    amount: Decimal
    low: Decimal
    high: Decimal
    days: int

    @property
    def is_flat(self) -> bool:
        """Whether nothing is expected but what is committed, as the history is too short."""
        return self.days < LEAST_DAYS

    def document(self, currency: str) -> ForecastDocument:
        """For JSON."""
        amounts = (Money(amount=round(each, 4), currency=currency) for each in self._amounts)
        amount, low, high = (each.document() for each in amounts)
        return {"amount": amount, "low": low, "high": high, "days": self.days, "flat": self.is_flat}

    @property
    def _amounts(self) -> tuple[Decimal, Decimal, Decimal]:
        return self.amount, self.low, self.high


def forecast(known: Decimal, by_day: Sequence[Decimal], left: timedelta) -> Forecast:
    """The cost of a period.

    Args:
        known: what was spent in it, and what is committed until its end.
        by_day: what the new boxes of each past day cost.
        left: the time until its end.
    """
    if len(by_day) < LEAST_DAYS:
        return Forecast(amount=known, low=known, high=known, days=len(by_day))
    tenths = quantiles(by_day, n=10, method="inclusive")
    days_left = Decimal(str(left / DAY))
    amount, low, high = (known + days_left * each for each in (mean(by_day), tenths[0], tenths[-1]))
    return Forecast(amount=amount, low=low, high=high, days=len(by_day))


def new_by_day(
    holdings: Iterable[Holding], cost: Callable[[Holding], Decimal], begun: datetime | None, now: datetime
) -> list[Decimal]:
    """What the boxes that were new on each of the last :data:`DAYS` days cost; fewer if less is known.

    Args:
        holdings: all that may have been new then.
        cost: of one of them, until its end.
        begun: when the journal was; ``None`` for an empty one.
        now: the moment.
    """
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    sums = [Decimal(0)] * (min(DAYS, (today - begun) // DAY) if begun and begun < today else 0)
    for holding in holdings:
        back = (today - holding.created_at) // DAY
        if holding.created_at < today and back < len(sums):
            sums[back] += cost(holding)
    return sums


def start_of_history(now: datetime) -> datetime:
    """From when on boxes may have been new on one of the past days."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - DAYS * DAY
