"""The market: every offer of the snapshot, searched by demand.

from gpucloud_pricing import Demand, Market, parse_wishes
Market.load().search(Demand(gpus=parse_wishes("A100:8")), today=date.today(), limit=5)
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TypeVar

from gpucloud_pricing import rules
from gpucloud_pricing.billing import NOTHING_SPECIAL, Billing
from gpucloud_pricing.demand import OWNED, PURCHASES, Demand
from gpucloud_pricing.explanation import Explanation, Reason, Refusal
from gpucloud_pricing.gpus import GpuWish
from gpucloud_pricing.live_sources import ACCOUNT_SOURCES, LIVE_SOURCES
from gpucloud_pricing.places import BadPlaceError, knows, opt_in_head, region_names
from gpucloud_pricing.rules import IMPLAUSIBLE, Place
from gpucloud_pricing.snapshot import SNAPSHOT, Snapshot
from gpucloud_pricing.values import (
    InstanceType,
    Interruption,
    Offer,
    Price,
    Rate,
    Region,
    Source,
    Tariff,
)

T = TypeVar("T")

SANITY = 5
"""The factor to the lowest or highest known price from which a price is flagged as implausible."""

Key = tuple[str, str]
"""A cloud and a name."""

Ranked = tuple[bool, Decimal, int, int, str, str, str, str, int, InstanceType, str, Price | None]
"""A price in one zone, in the order of choice: cheaper, newer, smaller, then by name."""


class Market:
    """Offers of all clouds, indexed by GPU model, type and way of paying.

    Prices are decoded, spread over zones and sorted per type when a search first needs them.
    """

    def __init__(
        self,
        *,
        types: Mapping[Key, InstanceType],
        regions: Mapping[Key, Region],
        prices: Callable[[InstanceType], Iterable[Price]],
        zones: Callable[[InstanceType], Mapping[str, Iterable[str]]],
        interruptions: Callable[[InstanceType], Mapping[str, Interruption]],
        tariffs: tuple[Tariff, ...],
        rates: tuple[Rate, ...],
        sources: Mapping[str, Source],
        bounds: Mapping[str, tuple[Decimal, Decimal]] | None = None,
    ) -> None:
        self.types = types
        self.bounds = bounds or {}
        self.regions = regions
        self.tariffs = tariffs
        self.rates = rates
        self.sources = sources
        self._prices = prices
        self._zones = zones
        self._interruptions = interruptions
        self._rates = {rate.quote: rate.rate for rate in rates if rate.base == "USD"} | {"USD": Decimal(1)}
        self._by_model: dict[str, list[InstanceType]] = defaultdict(list)
        for kind in types.values():
            self._by_model[kind.gpu_model].append(kind)
        self._ranked: dict[Key, dict[str, list[Ranked]]] = {}
        self._bands: dict[Key, Mapping[str, Interruption]] = {}
        self._opt_in: set[tuple[str, str, str]] = set()
        self._places: dict[tuple[str, str, str], Place] = {}

    @classmethod
    def load(cls, path: Path = SNAPSHOT) -> Market:
        """The market of the shipped snapshot, or of another one."""
        snapshot = Snapshot.read(path)
        return cls(
            types=snapshot.types,
            regions=snapshot.regions,
            prices=snapshot.prices,
            zones=snapshot.zones,
            interruptions=snapshot.interruptions,
            tariffs=snapshot.tariffs,
            rates=snapshot.rates,
            sources={
                **snapshot.sources,
                **{source.id: source for source in (*LIVE_SOURCES, *ACCOUNT_SOURCES)},
            },
            bounds=snapshot.bounds,
        )

    @classmethod
    def build(
        cls,
        *,
        types: Iterable[InstanceType],
        offers: Iterable[Price],
        regions: Iterable[Region] = (),
        zones: Mapping[tuple[str, str, str], Iterable[str]] | None = None,
        interruptions: Mapping[tuple[str, str, str], Interruption] | None = None,
        tariffs: Iterable[Tariff] = (),
        rates: Iterable[Rate] = (),
        sources: Iterable[Source] = (),
    ) -> Market:
        """A market of given values, whose prices are all ranked at once.

        ``zones`` and ``interruptions`` are by cloud, region and type. Missing regions are derived from the
        offers.
        """
        by_type: dict[Key, list[Price]] = defaultdict(list)
        places = {(region.cloud, region.name): region for region in regions}
        for price in offers:
            by_type[price.cloud, price.instance_type].append(price)
            places.setdefault((price.cloud, price.region), Region(cloud=price.cloud, name=price.region))
        offered: dict[Key, dict[str, Iterable[str]]] = defaultdict(dict)
        for (cloud, region, name), names in (zones or {}).items():
            offered[cloud, name][region] = names
        bands: dict[Key, dict[str, Interruption]] = defaultdict(dict)
        for (cloud, region, name), band in (interruptions or {}).items():
            bands[cloud, name][region] = band
        market = cls(
            types={(kind.cloud, kind.name): kind for kind in types},
            regions=places,
            prices=lambda kind: by_type.get((kind.cloud, kind.name), ()),
            zones=lambda kind: offered.get((kind.cloud, kind.name), {}),
            interruptions=lambda kind: bands.get((kind.cloud, kind.name), {}),
            tariffs=tuple(tariffs),
            rates=tuple(rates),
            sources={source.id: source for source in sources},
        )
        for kind in market.types.values():
            market._rank(kind)
        return market

    def joined(self, other: Market) -> Market:
        """Both markets in one. A type or rate of both is taken from this market."""

        def side(kind: InstanceType) -> Market:
            return self if (kind.cloud, kind.name) in self.types else other

        return Market(
            types={**other.types, **self.types},
            regions={**other.regions, **self.regions},
            prices=lambda kind: side(kind)._prices(kind),
            zones=lambda kind: side(kind)._zones(kind),
            interruptions=lambda kind: side(kind)._interruptions(kind),
            tariffs=(*self.tariffs, *other.tariffs),
            rates=(*other.rates, *self.rates),
            sources={**other.sources, **self.sources},
            bounds={**other.bounds, **self.bounds},
        )

    def refreshed(
        self,
        current: Callable[[InstanceType], Iterable[Price]],
        interruptions: Callable[[InstanceType], Mapping[str, Interruption]],
    ) -> Market:
        """This market with newer prices, which replace those for the same offer.

        Args:
            current: the newer prices of a type; their sources are among the market's.
            interruptions: newer rates of interruption of a type, by region.
        """

        def prices(kind: InstanceType) -> Iterator[Price]:
            newer = list(current(kind))
            told = {(price.region, price.purchase) for price in newer}
            yield from newer
            yield from (old for old in self._prices(kind) if (old.region, old.purchase) not in told)

        return self._with(prices, lambda kind: {**self._interruptions(kind), **interruptions(kind)})

    def on_own_terms(
        self,
        terms: Callable[[Price], Price],
        own: Callable[[InstanceType, Sequence[Price]], Iterable[Price]],
        sources: Iterable[Source],
    ) -> Market:
        """This market under a user's own conditions.

        Args:
            terms: returns a price with the user's discount.
            own: returns the user's further prices of a type, from its prices.
            sources: the sources of the conditions.
        """

        def prices(kind: InstanceType) -> Iterator[Price]:
            listed = [terms(price) for price in self._prices(kind)]
            yield from listed
            yield from own(kind, listed)

        return self._with(prices, self._interruptions, sources)

    def _with(
        self,
        prices: Callable[[InstanceType], Iterable[Price]],
        interruptions: Callable[[InstanceType], Mapping[str, Interruption]],
        sources: Iterable[Source] = (),
    ) -> Market:
        """This market with other prices and rates of interruption, and their sources."""
        return Market(
            types=self.types,
            regions=self.regions,
            prices=prices,
            zones=self._zones,
            interruptions=interruptions,
            tariffs=self.tariffs,
            rates=self.rates,
            sources={**self.sources, **{source.id: source for source in sources}},
            bounds=self.bounds,
        )

    def with_gpus(self, wishes: Iterable[GpuWish]) -> list[InstanceType]:
        """The types with one of the alternatives; all types without any."""
        wanted = tuple(wishes)
        return [
            kind
            for kind in self.types.values()
            if not wanted or any(rules.grants(wish, kind) for wish in wanted)
        ]

    def search(self, demand: Demand, today: date, limit: int | None = None) -> list[Offer]:
        """The offers that meet a demand, the best first.

        Unflagged before flagged, then by price in USD, age, vCPUs, cloud, region, zone and type. Offers
        without a known price come last.

        Args:
            demand: the demand.
            today: the date for the age of prices and for retired types.
            limit: the maximum number of offers.
        """
        vacuous = {"cloud": not demand.clouds, "region": not demand.regions, "zone": not demand.zones}
        place_rules = [rule for name, rule in rules.PLACE_RULES.items() if not vacuous.get(name)]
        by_zone = bool(demand.zones)
        allowed: dict[Key | tuple[str, str, str], bool] = {}
        clean: list[Offer] = []
        flagged: list[Offer] = []
        unpriced: list[Offer] = []
        for ranked in self._candidates(demand, today):
            place = ranked[4:7]
            key = place if by_zone or place in self._opt_in else place[:2]  # else the zone is irrelevant
            verdict = allowed.get(key)
            if verdict is None:
                where = self._place(*place)
                verdict = allowed[key] = _first(place_rules, demand, where) is None
            if not verdict:
                continue
            offer = self._offer(ranked, today)
            if rules.max_price(demand, offer) or rules.max_age(demand, offer, today):
                continue
            (unpriced if offer.price_usd is None else flagged if offer.flags else clean).append(offer)
            if len(clean) == limit:
                break
        return (clean + flagged + unpriced)[:limit]

    def explain(self, demand: Demand, today: date) -> Explanation:
        """Checks every offer of the market against every rule.

        Same arguments as :meth:`search`; the offers that match are in the same order.
        """
        refused: list[Refusal] = []
        memo: dict[tuple[str, str, str], list[Reason]] = {}
        for kind in self.types.values():
            of_type = _reasons(rules.TYPE_RULES, demand, kind)
            for purchase, entries in self._rank(kind).items():
                status = rules.status(demand, kind, purchase, today)
                fixed = of_type + ([Reason(rule="status", text=status)] if status else [])
                for ranked in entries:
                    key = ranked[4:7]
                    if key not in memo:
                        memo[key] = _reasons(rules.PLACE_RULES, demand, self._place(*key))
                    offer = self._offer(ranked, today)
                    reasons = fixed + memo[key] + _offer_reasons(demand, offer, today)
                    if reasons:
                        refused.append(Refusal(offer=offer, reasons=tuple(reasons)))
        models = {wish.model for wish in demand.gpus} - {None}

        def distance(refusal: Refusal) -> tuple[object, ...]:
            far = bool(models) and refusal.offer.gpu_model not in models
            return far, len(refusal.reasons), order(refusal.offer)

        refused.sort(key=distance)
        return Explanation(
            matched=tuple(self.search(demand, today)),
            refused=tuple(refused),
            models=frozenset(model for model in models if model),
        )

    def check(self, demand: Demand) -> None:
        """Checks that every cloud, region and zone of a demand exists.

        Raises:
            BadPlaceError: one does not.
        """
        regions = frozenset(name for region in self.regions.values() for name in region_names(region))
        clouds = frozenset(cloud for cloud, _ in self.types)
        for field, patterns, names in (
            ("clouds", demand.clouds, clouds),
            ("regions", demand.regions, regions),
            ("zones", demand.zones, frozenset[str]()),
        ):
            known = names
            if field != "clouds" and not all(knows(known, pattern) for pattern in patterns):
                # a last resort, because zones are only known once every price is ranked
                known |= self._opt_in_zones() if field == "regions" else self._all_zones()
            for pattern in patterns:
                if not knows(known, pattern):
                    raise BadPlaceError(field, pattern, known)

    def _all_zones(self) -> frozenset[str]:
        ranked = (self._rank(kind).values() for kind in self.types.values())
        zones = {entry[6] for lists in ranked for entries in lists for entry in entries if entry[6]}
        return frozenset(zones.union(*(region.zones for region in self.regions.values())))

    def _opt_in_zones(self) -> frozenset[str]:
        self._all_zones()
        return frozenset(zone for _, _, zone in self._opt_in)

    def usd(self, amount: Decimal, currency: str) -> Decimal | None:
        """An amount in USD at the reference rate, unrounded; ``None`` without a rate."""
        rate = self._rates.get(currency)
        return None if rate is None else amount if rate == 1 else amount / rate

    def is_plausible(self, model: str, usd_per_gpu: Decimal) -> bool:
        """Whether a price per hour is plausible for a GPU of a model, by all its prices in the snapshot."""
        low, high = self.bounds.get(model, (Decimal(0), Decimal("Infinity")))
        return low / SANITY <= usd_per_gpu <= high * SANITY

    def billing_of(self, cloud: str) -> Billing:
        """How a cloud bills; the default if the market has no type of it."""
        return next((kind.billing for kind in self.types.values() if kind.cloud == cloud), NOTHING_SPECIAL)

    def rate(self, currency: str) -> Rate | None:
        """The reference rate from USD to a currency."""
        return next((rate for rate in self.rates if (rate.base, rate.quote) == ("USD", currency)), None)

    def rates_of(self, offers: Iterable[Offer]) -> list[Rate]:
        """The reference rates that these offers' prices in USD are based on."""
        currencies = dict.fromkeys(offer.quote.currency for offer in offers if offer.quote)
        return [rate for currency in currencies if (rate := self.rate(currency))]

    def prices(self) -> Iterator[Price]:
        """Every price, not spread over zones, types in the snapshot's order."""
        for kind in self.types.values():
            yield from self._prices(kind)

    def prices_of(self, cloud: str, name: str) -> Iterable[Price]:
        """Every price of one type, not spread over zones."""
        return self._prices(self.types[cloud, name])

    def _candidates(self, demand: Demand, today: date) -> Iterator[Ranked]:
        """Every price of the types that may match, in the order of choice."""
        lists: list[list[Ranked]] = []
        for kind in self._kinds(demand):
            if _first(rules.TYPE_RULES.values(), demand, kind) is not None:
                continue
            ranked = self._rank(kind)
            lists += [
                ranked[purchase]
                for purchase in dict.fromkeys(demand.purchases)
                if purchase in ranked and rules.status(demand, kind, purchase, today) is None
            ]
        return heapq.merge(*lists) if len(lists) > 1 else iter(lists[0] if lists else ())

    def _kinds(self, demand: Demand) -> Iterable[InstanceType]:
        """The types with the GPUs; all types, if the demand has no model."""
        if any(wish.model is None for wish in demand.gpus) or not demand.gpus:
            return self.types.values()
        models = dict.fromkeys(wish.model or "" for wish in demand.gpus)
        kinds = (kind for model in models for kind in self._by_model.get(model, ()))
        return (kind for kind in kinds if any(rules.grants(wish, kind) for wish in demand.gpus))

    def _rank(self, kind: InstanceType) -> dict[str, list[Ranked]]:
        """A type's prices by way of paying, per zone and in the order of choice."""
        key = (kind.cloud, kind.name)
        if key not in self._ranked:
            by_purchase: dict[str, list[Ranked]] = defaultdict(list)
            number = count()
            for purchase, region, zone, price in self._per_zone(kind):
                usd = None if price is None else self.usd(price.net, price.currency)
                if zone and opt_in_head(zone, self.regions[kind.cloud, region]):
                    self._opt_in.add((kind.cloud, region, zone))
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
            if ("on_demand", region, None) not in own:
                for zone in names:
                    if ("on_demand", region, zone) not in own:
                        yield "on_demand", region, zone, None

    def _place(self, cloud: str, region: str, zone: str) -> Place:
        key = (cloud, region, zone)
        if key not in self._places:
            self._places[key] = rules.place_of(self.regions[cloud, region], zone or None)
        return self._places[key]

    def _offer(self, ranked: Ranked, today: date) -> Offer:
        no_usd, usd, _, _, cloud, region, zone, name, _, kind, purchase, price = ranked
        band = None
        if purchase == "spot":
            key = (cloud, name)
            if key not in self._bands:
                self._bands[key] = self._interruptions(kind)
            band = self._bands[key].get(region)
        flags = rules.flags(kind, purchase, price.as_of if price else None, today)
        if not no_usd and purchase != OWNED and not self.is_plausible(kind.gpu_model, usd / kind.gpu_count):
            flags += (IMPLAUSIBLE,)
        return Offer(
            kind=kind,
            region=region,
            zone=zone or None,
            purchase=purchase,
            quote=price,
            price_usd=None if no_usd else usd,
            flags=flags,
            interruption=band,
        )


def order(offer: Offer) -> tuple[object, ...]:
    """The order of choice, as a sort key."""
    return (
        offer.price_usd is None,
        bool(offer.flags),
        offer.price_usd or Decimal(0),
        -offer.as_of.toordinal() if offer.as_of else 0,
        offer.vcpus,
        offer.cloud,
        offer.region,
        offer.zone or "",
        offer.instance_type,
        PURCHASES.index(offer.purchase),
    )


def _first(table: Iterable[Callable[[Demand, T], str | None]], demand: Demand, subject: T) -> str | None:
    for rule in table:
        if reason := rule(demand, subject):
            return reason
    return None


def _reasons(
    table: Mapping[str, Callable[[Demand, T], str | None]], demand: Demand, subject: T
) -> list[Reason]:
    told = ((name, rule(demand, subject)) for name, rule in table.items())
    return [Reason(rule=name, text=text) for name, text in told if text]


def _offer_reasons(demand: Demand, offer: Offer, today: date) -> list[Reason]:
    told = {
        "purchase": rules.purchase(demand, offer),
        "max_price": rules.max_price(demand, offer),
        "max_age": rules.max_age(demand, offer, today),
    }
    return [Reason(rule=name, text=text) for name, text in told.items() if text]
