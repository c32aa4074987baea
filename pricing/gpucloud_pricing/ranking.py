"""The order of choice: a type's prices, spread over zones and sorted; spot prices out of line are marked."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from statistics import median
from typing import NamedTuple

from gpucloud_pricing import rules
from gpucloud_pricing.places import opt_in_head
from gpucloud_pricing.purchases import PURCHASES, Purchase
from gpucloud_pricing.values import InstanceType, Offer, Price, Region

_LEAST_SHARE = Decimal("0.5")
_ROUNDING = Decimal("1.01")
"""Spot prices are listed with fewer digits than on-demand prices: those within 1 % count as equal."""

Zone = tuple[str, str]
"""A region and a zone; the zone is empty for a regional price."""


def out_of_line(spot: Mapping[Zone, Decimal], on_demand: Mapping[str, Decimal]) -> dict[Zone, str]:
    """The zones of one instance type whose spot price is out of line, each with its flag.

    A price far below its neighbours is more often an error or a zone without stock than a bargain, and one
    above on-demand buys the risk of interruption for nothing.

    Args:
        spot: the spot price of each zone, in USD per hour.
        on_demand: the on-demand price of each region, in USD per hour; a region may be missing.
    """
    medians = _medians(spot)
    flags: dict[Zone, str] = {}
    for (region, zone), usd in spot.items():
        listed = on_demand.get(region)
        if usd < medians[region] * _LEAST_SHARE:
            flags[region, zone] = rules.BELOW_REGION
        elif listed is not None and usd > listed * _ROUNDING:
            flags[region, zone] = rules.ABOVE_ON_DEMAND
    return flags


def lowest_by_region(prices: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """The lowest of the prices of each region."""
    lowest: dict[str, Decimal] = {}
    for region, usd in prices:
        lowest[region] = min(usd, lowest.get(region, usd))
    return lowest


def _medians(spot: Mapping[Zone, Decimal]) -> dict[str, Decimal]:
    """The median price of each region's zones."""
    by_region: dict[str, list[Decimal]] = defaultdict(list)
    for (region, _), usd in spot.items():
        by_region[region].append(usd)
    return {region: median(prices) for region, prices in by_region.items()}


Key = tuple[str, str]
"""A cloud and a name."""

Ranked = tuple[bool, Decimal, int, int, str, str, str, str, int, InstanceType, str, Price | None]
"""A price in one zone, in the order of choice: cheaper, newer, smaller, then by name."""


class Choices(NamedTuple):
    """Prices of one type and way of paying, each list in the order of choice, the best list first.

    The first three are by caution (:func:`gpucloud_pricing.rules.caution`).
    """

    clean: list[Ranked]
    flagged: list[Ranked]
    implausible: list[Ranked]
    unpriced: list[Ranked]


class Ranking:
    """The prices of each type in the order of choice, worked out when a search first needs them.

    Attributes:
        opt_in: the zones seen so far that an account has to opt in to, each with its cloud and region.
    """

    def __init__(
        self,
        regions: Mapping[Key, Region],
        prices: Callable[[InstanceType], Iterable[Price]],
        zones: Callable[[InstanceType], Mapping[str, Iterable[str]]],
        rates: Mapping[str, Decimal],
    ) -> None:
        self.opt_in: set[tuple[str, str, str]] = set()
        self._regions = regions
        self._prices = prices
        self._zones = zones
        self._rates = rates
        self._ranked: dict[Key, dict[str, list[Ranked]]] = {}
        self._out_of_line: dict[Key, Mapping[Zone, str]] = {}

    def of(self, kind: InstanceType) -> dict[str, list[Ranked]]:
        """A type's prices by way of paying, per zone and in the order of choice."""
        key = (kind.cloud, kind.name)
        if key not in self._ranked:
            by_purchase: dict[str, list[Ranked]] = defaultdict(list)
            number = itertools.count()
            for purchase, region, zone, price in self._per_zone(kind):
                usd = None if price is None else in_usd(self._rates, price.net, price.currency)
                if zone and opt_in_head(zone, self._regions[kind.cloud, region]):
                    self.opt_in.add((kind.cloud, region, zone))
                by_purchase[purchase].append(
                    (
                        usd is None,
                        Decimal(0) if usd is None else usd,
                        0 if price is None else -price.as_of.toordinal(),
                        kind.vcpus,
                        kind.cloud,
                        region,
                        zone or "",
                        kind.name,
                        next(number),
                        kind,
                        purchase,
                        price,
                    )
                )
            self._ranked[key] = {purchase: sorted(entries) for purchase, entries in by_purchase.items()}
        return self._ranked[key]

    def _per_zone(self, kind: InstanceType) -> Iterator[tuple[str, str, str | None, Price | None]]:
        """A type's prices; a regional price is repeated for each zone without a price of its own."""
        prices = list(self._prices(kind))
        zones = self._zones(kind)
        own = {(price.purchase, price.region, price.zone) for price in prices}
        for price in prices:
            if price.zone is not None:
                yield price.purchase, price.region, price.zone, price
                continue
            spread: list[str | None] = [
                zone
                for zone in zones.get(price.region, ())
                if (price.purchase, price.region, zone) not in own
            ]
            for zone in spread or [None]:
                yield price.purchase, price.region, zone, price
        for region, names in zones.items():
            if (Purchase.ON_DEMAND, region, None) not in own:
                for zone in names:
                    if (Purchase.ON_DEMAND, region, zone) not in own:
                        yield Purchase.ON_DEMAND.value, region, zone, None

    def odd_zones(self, kind: InstanceType) -> Mapping[Zone, str]:
        """The zones in which a type's spot price is out of line, with the flags."""
        key = (kind.cloud, kind.name)
        if key not in self._out_of_line:
            ranked = self.of(kind)
            spot = {(entry[5], entry[6]): entry[1] for entry in ranked.get(Purchase.SPOT, ()) if not entry[0]}
            listed = ((entry[5], entry[1]) for entry in ranked.get(Purchase.ON_DEMAND, ()) if not entry[0])
            self._out_of_line[key] = out_of_line(spot, lowest_by_region(listed))
        return self._out_of_line[key]


def in_usd(rates: Mapping[str, Decimal], amount: Decimal, currency: str) -> Decimal | None:
    """An amount in USD, unrounded; ``None`` without a rate of its currency."""
    rate = rates.get(currency)
    return None if rate is None else amount if rate == 1 else amount / rate


def order(offer: Offer) -> tuple[object, ...]:
    """The order of choice, as a sort key."""
    return (
        offer.price_usd is None,
        rules.caution(offer.flags),
        offer.price_usd or Decimal(0),
        -offer.as_of.toordinal() if offer.as_of else 0,
        offer.vcpus,
        offer.cloud,
        offer.region,
        offer.zone or "",
        offer.instance_type,
        PURCHASES.index(offer.purchase),
    )
