"""Prices that are not as they should be: unusually high, above on demand, changed, unbelievable. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from gpucloud.market.cells import way_text
from gpucloud.market.history import Series
from gpucloud_pricing import Market, Price, format_money
from gpucloud_pricing.history import Span
from gpucloud_pricing.outliers import usual
from gpucloud_pricing.price_trend import trend
from gpucloud_pricing.purchases import KINDS, Purchase
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.market.documents import PriceAnomalyDocument

DAYS = 30
"""How many past days say what is usual."""
LEAST_SHARE = Decimal("0.1")
"""How far above the median a price must be, as a share of it."""
DAY = timedelta(days=1)


class Oddity(StrEnum):
    """What is wrong with a price."""

    DEARER = "dearer"  # than is usual in the last 30 days
    ABOVE_ON_DEMAND = "above-on-demand"  # spot costs more than the same machine on demand
    LIST_CHANGED = "list-changed"  # a list price has changed within a day
    IMPLAUSIBLE = "implausible"  # outside of what a GPU of this model can cost


_TEXTS = {
    Oddity.DEARER: "costs more than is usual",
    Oddity.ABOVE_ON_DEMAND: "costs more than on demand",
    Oddity.LIST_CHANGED: "has another list price",
    Oddity.IMPLAUSIBLE: "has a price that is not believable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceAnomaly:
    """One price that is not as it should be.

    Attributes:
        what: what is wrong with it.
        price: the price.
        since: when it was first seen.
        other: what it is compared with, in its currency: the median, the price on demand, the earlier price;
            ``None`` if it is not believable by itself.
    """

    what: Oddity
    price: Price
    since: datetime
    other: Decimal | None = None

    @property
    def key(self) -> str:
        """The same for the same finding at a later look: one a day for each offer."""
        place = self.price.zone or self.price.region
        offer = (self.price.cloud, place, self.price.instance_type, self.price.purchase)
        return ":".join((self.what, *offer, f"{self.since:%Y-%m-%d}"))

    @property
    def text(self) -> str:
        """For people."""
        price = self.price
        offer = (
            f"{price.cloud} {price.zone or price.region} {price.instance_type} {way_text(price.purchase, '')}"
        )
        before = "" if self.other is None else f" instead of {format_money(self.other, price.currency)}"
        return f"{offer} {_TEXTS[self.what]}: {format_money(price.amount, price.currency)}{before} per hour"

    def document(self) -> PriceAnomalyDocument:
        """For JSON."""
        other = None if self.other is None else Money(amount=self.other, currency=self.price.currency)
        return {
            **self.price.subject(),
            "what": str(self.what),
            "amount": self.price.money.document(),
            "instead_of": other.document() if other else None,
            "since": self.since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def price_anomalies(
    market: Market, series: Mapping[Series, Sequence[Span]], now: datetime
) -> list[PriceAnomaly]:
    """What is wrong with the prices in force, the largest deviation first.

    Args:
        market: the types, the bounds of their GPUs' prices, and exchange rates.
        series: the spans of each price, oldest first.
        now: the moment.
    """
    in_force = [spans for spans in series.values() if spans and spans[-1].ended is None]
    on_demand = {
        _machine(spans[-1].price): spans[-1].price
        for spans in in_force
        if spans[-1].price.purchase == Purchase.ON_DEMAND
    }
    found: list[PriceAnomaly] = []
    for spans in in_force:
        last = spans[-1]
        kind = market.types.get((last.price.cloud, last.price.instance_type))
        usd = market.usd(last.price.amount, last.price.currency)
        if kind and usd is not None and not market.is_plausible(kind.gpu_model, usd / kind.gpu_count):
            found.append(PriceAnomaly(what=Oddity.IMPLAUSIBLE, price=last.price, since=last.since))
        elif KINDS[last.price.purchase].price_moves:
            found += _of_spot(spans, on_demand.get(_machine(last.price)), now)
        elif last.price.purchase == Purchase.ON_DEMAND and now - last.since <= DAY:
            earlier = next((span.price for span in reversed(spans[:-1])), None)
            if earlier is not None and earlier.amount != last.price.amount:
                changed = Oddity.LIST_CHANGED
                found.append(
                    PriceAnomaly(what=changed, price=last.price, since=last.since, other=earlier.amount)
                )
    return sorted(found, key=_deviation, reverse=True)


# --- inside


def _of_spot(spans: Sequence[Span], on_demand: Price | None, now: datetime) -> list[PriceAnomaly]:
    """What is wrong with a spot price: that it is above on demand says more than that it is high."""
    last = spans[-1]
    if (
        on_demand is not None
        and on_demand.currency == last.price.currency
        and last.price.amount > on_demand.amount
    ):
        above, other = Oddity.ABOVE_ON_DEMAND, on_demand.amount
        return [PriceAnomaly(what=above, price=last.price, since=last.since, other=other)]
    past = [
        each for each in trend(spans, [now - back * DAY for back in range(DAYS, 0, -1)]) if each is not None
    ]
    known = usual(past)
    if known is not None and last.price.amount > max(known.most, known.middle * (1 + LEAST_SHARE)):
        dearer = Oddity.DEARER
        return [PriceAnomaly(what=dearer, price=last.price, since=last.since, other=known.middle)]
    return []


def _machine(price: Price) -> tuple[str, str, str]:
    return price.cloud, price.region, price.instance_type


def _deviation(anomaly: PriceAnomaly) -> Decimal:
    """The ratio to what the price is compared with."""
    if not anomaly.other:
        return Decimal("Infinity")
    return abs(anomaly.price.amount / anomaly.other - 1)
