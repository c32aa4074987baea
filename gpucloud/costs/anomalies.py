"""Days on which boxes have cost more than is usual. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.costs.periods import Granularity, periods
from gpucloud.costs.spend import BillingOf, Charge, charges
from gpucloud.journal.records import Holding
from gpucloud_pricing.outliers import usual
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.costs.documents import UnusualDayDocument

BEFORE = 30
"""How many days before a day say what is usual."""
LATELY = 7
"""How many days are judged, with today."""
LEAST_USD = Decimal(20)
"""How much more than the median a day must cost."""
DAY = timedelta(days=1)
BY_DAY = partial(periods, granularity=Granularity.DAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusualDay:
    """A day (in UTC) that has cost more than is usual, in USD.

    Attributes:
        day: the day; today counts so far.
        amount: its cost.
        middle: the median of the 30 days before it.
        most: the highest cost that would have been usual.
    """

    day: date
    amount: Decimal
    middle: Decimal
    most: Decimal

    def document(self) -> UnusualDayDocument:
        """For JSON."""
        amount, middle, most = (
            Money(amount=round(each, 4), currency="USD").document()
            for each in (self.amount, self.middle, self.most)
        )
        return {"day": self.day.isoformat(), "amount": amount, "median": middle, "most": most}

    @property
    def text(self) -> str:
        """For people."""
        return (
            f"{self.day}: boxes have cost ${self.amount:.2f}, usual are ${self.middle:.2f} a day and at most"
            f" ${self.most:.2f}"
        )


def since_when(now: datetime) -> datetime:
    """From when on charges are needed."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - (BEFORE + LATELY) * DAY


def charges_by_day(holdings: Iterable[Holding], now: datetime, billing_of: BillingOf) -> Iterator[Charge]:
    """The charges of boxes on each day that :func:`unusual_days` needs."""
    for holding in holdings:
        yield from charges(holding, since_when(now), now, billing_of, BY_DAY)


def usd_by_day(found: Iterable[Charge], usd: Callable[[Decimal, str], Decimal | None]) -> dict[date, Decimal]:
    """The sums of charges by their day, where prices and rates of exchange are known."""
    sums: dict[date, Decimal] = defaultdict(Decimal)
    for charge in found:
        if charge.amount:
            known = charge.amount if charge.currency == "USD" else usd(charge.amount, charge.currency)
            sums[charge.start.date()] += known or Decimal(0)
    return sums


def unusual_days(usd: Mapping[date, Decimal], begun: datetime | None, now: datetime) -> list[UnusualDay]:
    """Those of the last days that have cost more than is usual, the newest first.

    Args:
        usd: what each day has cost; one that is missing has cost nothing.
        begun: when the journal was; ``None`` for an empty one.
        now: the moment.
    """
    if begun is None:
        return []
    first, found = begun.astimezone(UTC).date(), list[UnusualDay]()
    for back in range(LATELY):
        day = now.astimezone(UTC).date() - back * DAY
        known = min(BEFORE, (day - first).days)
        past = usual([usd.get(day - each * DAY, Decimal(0)) for each in range(1, known + 1)])
        if past is None:
            continue
        amount, most = usd.get(day, Decimal(0)), max(past.most, past.middle + LEAST_USD)
        if amount > most:
            found.append(UnusualDay(day=day, amount=amount, middle=past.middle, most=most))
    return found
