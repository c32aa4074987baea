"""An overview of the known prices: how many, how old, and their sources."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from gpucloud_pricing import Market, Price, Rate, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceGroup:
    """The known prices of one cloud and way of paying, from one source; ``age_days`` is of the newest."""

    cloud: str
    purchase: str
    prices: int
    regions: int
    types: int
    currencies: Sequence[str]
    oldest: date
    newest: date
    age_days: int
    source: str

    def document(self) -> dict[str, Any]:
        """A group of ``gpucloud.prices/v1``."""
        return {**asdict(self), "oldest": self.oldest.isoformat(), "newest": self.newest.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOverview:
    """An overview of the known prices.

    Attributes:
        groups: by cloud, way of paying and source.
        sources: those of the prices and the exchange rates, by name.
        rates: the exchange rates.
        set_aside: the number of invalid rows in a refresh, by reason.
    """

    groups: Sequence[PriceGroup]
    sources: Sequence[Source]
    rates: Sequence[Rate]
    set_aside: Mapping[str, int]

    @property
    def prices(self) -> int:
        """The number of known prices."""
        return sum(group.prices for group in self.groups)

    @property
    def live(self) -> int:
        """The number of prices that were refreshed here, not shipped."""
        asked = {source.id for source in self.sources if source.live}
        return sum(group.prices for group in self.groups if group.source in asked)

    def document(self) -> dict[str, Any]:
        """The fields of ``gpucloud.prices/v1``."""
        return {
            "as_of": max(group.newest for group in self.groups).isoformat(),
            "prices": self.prices,
            "groups": [group.document() for group in self.groups],
            "sources": [asdict(source) for source in self.sources],
            "rates": [rate.document() for rate in self.rates],
        }


def overview(market: Market, today: date, set_aside: Counter[str]) -> PriceOverview:
    """The prices of a market, counted.

    Args:
        market: the prices.
        today: the date for their age.
        set_aside: the number of invalid rows in refreshes, by reason.
    """
    prices: dict[tuple[str, str, str], list[Price]] = defaultdict(list)
    for price in market.prices():
        prices[price.cloud, price.purchase, price.source].append(price)
    groups = [_group(found, today) for _, found in sorted(prices.items())]
    used = {group.source for group in groups} | {rate.source for rate in market.rates}
    return PriceOverview(
        groups=groups,
        sources=[market.sources[name] for name in sorted(used)],
        rates=market.rates,
        set_aside=dict(set_aside.most_common()),
    )


def _group(prices: Sequence[Price], today: date) -> PriceGroup:
    first, newest = prices[0], max(price.as_of for price in prices)
    return PriceGroup(
        cloud=first.cloud,
        purchase=first.purchase,
        prices=len(prices),
        regions=len({price.region for price in prices}),
        types=len({price.instance_type for price in prices}),
        currencies=sorted({price.currency for price in prices}),
        oldest=min(price.as_of for price in prices),
        newest=newest,
        age_days=(today - newest).days,
        source=first.source,
    )
