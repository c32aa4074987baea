"""An overview of the known prices: how many, how old, and their sources."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, cast

from gpucloud_pricing import Market, Price, Rate, Source, Tariff
from gpucloud_pricing.tariffs import EVERYWHERE, KINDS

if TYPE_CHECKING:
    from gpucloud.market.documents import (
        PriceGroupDocument,
        PricesDocument,
        SourceDocument,
        TariffGroupDocument,
    )


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

    def document(self) -> PriceGroupDocument:
        """A group of ``gpucloud.prices/v1``."""
        return {
            "cloud": self.cloud,
            "purchase": self.purchase,
            "prices": self.prices,
            "regions": self.regions,
            "types": self.types,
            "currencies": list(self.currencies),
            "oldest": self.oldest.isoformat(),
            "newest": self.newest.isoformat(),
            "age_days": self.age_days,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TariffGroup:
    """The known tariffs of one cloud and kind, from one source.

    Attributes:
        cloud: the provider's name.
        kind: the kind of tariff.
        tariffs: how many there are, each step counted.
        regions: in how many regions; 0 for tariffs that are the same everywhere.
        oldest: the date of the oldest; ``None`` if the source has no dates.
        newest: the date of the newest; likewise.
        source: an id of the sources.
    """

    cloud: str
    kind: str
    tariffs: int
    regions: int
    oldest: date | None
    newest: date | None
    source: str

    def document(self) -> TariffGroupDocument:
        """A group of ``gpucloud.prices/v1``."""
        return {
            "cloud": self.cloud,
            "kind": self.kind,
            "tariffs": self.tariffs,
            "regions": self.regions,
            "oldest": self.oldest.isoformat() if self.oldest else None,
            "newest": self.newest.isoformat() if self.newest else None,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOverview:
    """An overview of the known prices.

    Attributes:
        groups: by cloud, way of paying and source.
        tariffs: the prices other than compute, by cloud, kind and source.
        sources: those of the prices, the tariffs and the exchange rates, by name.
        rates: the exchange rates.
        set_aside: the number of invalid rows in a refresh, by reason.
    """

    groups: Sequence[PriceGroup]
    tariffs: Sequence[TariffGroup]
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

    def document(self) -> PricesDocument:
        """The fields of ``gpucloud.prices/v1``."""
        return {
            "as_of": max(group.newest for group in self.groups).isoformat(),
            "prices": self.prices,
            "groups": [group.document() for group in self.groups],
            "tariffs": [group.document() for group in self.tariffs],
            "sources": [cast("SourceDocument", asdict(source)) for source in self.sources],
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
    tariffs = _tariff_groups(market)
    used = {group.source for group in groups} | {group.source for group in tariffs}
    used |= {rate.source for rate in market.rates}
    return PriceOverview(
        groups=groups,
        tariffs=tariffs,
        sources=[market.sources[name] for name in sorted(used)],
        rates=market.rates,
        set_aside=dict(set_aside.most_common()),
    )


def _tariff_groups(market: Market) -> list[TariffGroup]:
    clouds = {cloud: None for cloud, _ in market.regions}
    places = [*market.regions, *((cloud, EVERYWHERE) for cloud in clouds)]
    found: dict[tuple[str, str, str], set[Tariff]] = defaultdict(set)
    for cloud, region in places:
        for kind in KINDS:
            for tariff in market.tariffs.at(cloud, region, kind):
                found[cloud, kind, tariff.source].add(tariff)
    return [_tariff_group(group) for _, group in sorted(found.items())]


def _tariff_group(tariffs: Collection[Tariff]) -> TariffGroup:
    first = next(iter(tariffs))
    days = [tariff.as_of for tariff in tariffs if tariff.as_of]
    return TariffGroup(
        cloud=first.cloud,
        kind=first.kind,
        tariffs=len(tariffs),
        regions=len({tariff.region for tariff in tariffs} - {EVERYWHERE}),
        oldest=min(days, default=None),
        newest=max(days, default=None),
        source=first.source,
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
