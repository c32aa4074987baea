"""The market: every offer of the snapshot, searched by demand.

from gpucloud_pricing import Demand, Market, parse_requirements
Market.load().search(Demand(gpus=parse_requirements("A100:8")), today=date.today(), limit=5)
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpucloud_pricing import rules
from gpucloud_pricing.billing import NOTHING_SPECIAL, Billing
from gpucloud_pricing.demand import Demand
from gpucloud_pricing.gpus import MAX_COUNT, format_requirement
from gpucloud_pricing.live_sources import ACCOUNT_SOURCES, LIVE_SOURCES
from gpucloud_pricing.places import BadPlaceError, admits, knows, knows_type, region_names
from gpucloud_pricing.purchases import KINDS
from gpucloud_pricing.ranking import Choices, Key, Ranked, Ranking, in_usd, order
from gpucloud_pricing.rules import IMPLAUSIBLE, OfferPlace
from gpucloud_pricing.snapshot import Snapshot, shipped_tariffs
from gpucloud_pricing.spot_traces import SPOT_SOURCES
from gpucloud_pricing.tariffs import Tariff, TariffTable
from gpucloud_pricing.values import (
    InstanceType,
    Interruption,
    Offer,
    Price,
    Rate,
    Region,
    Source,
)

if TYPE_CHECKING:
    from gpucloud_pricing.explanation import Explanation

T = TypeVar("T")

SANITY = 5
"""The factor to the lowest or highest known price from which a price is flagged as implausible."""


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
        tariffs: TariffTable,
        rates: tuple[Rate, ...],
        sources: Mapping[str, Source],
        bounds: Mapping[str, tuple[Decimal, Decimal]] | None = None,
    ) -> None:
        self.types = types
        self.bounds = bounds or {}
        self.regions = regions
        self.tariffs = tariffs
        self.rates = rates
        self._sources = sources
        self._prices = prices
        self._zones = zones
        self._interruptions = interruptions
        self._rates = {rate.quote: rate.rate for rate in rates if rate.base == "USD"} | {"USD": Decimal(1)}
        self._by_model: dict[str, list[InstanceType]] = defaultdict(list)
        for kind in types.values():
            self._by_model[kind.gpu_model].append(kind)
        self._ranking = Ranking(regions, prices, zones, self._rates)
        self._chosen: dict[tuple[str, str, str, date], Choices] = {}
        self._bands: dict[Key, Mapping[str, Interruption]] = {}
        self._places: dict[tuple[str, str, str], OfferPlace] = {}

    @classmethod
    def load(cls, path: Path | None = None) -> Market:
        """The market of the newest installed snapshot, or of another one, and the newest tariffs."""
        snapshot = Snapshot.read(path)
        return cls(
            types=snapshot.types,
            regions=snapshot.regions,
            prices=snapshot.prices,
            zones=snapshot.zones,
            interruptions=snapshot.interruptions,
            tariffs=shipped_tariffs(),
            rates=snapshot.rates,
            sources={
                **snapshot.sources,
                **{source.id: source for source in (*LIVE_SOURCES, *ACCOUNT_SOURCES, *SPOT_SOURCES)},
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
            tariffs=TariffTable.of(tariffs),
            rates=tuple(rates),
            sources={source.id: source for source in sources},
        )
        for kind in market.types.values():
            market._ranking.of(kind)
        return market

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources of prices, tariffs and rates, by id."""
        return {**self.tariffs.sources, **self._sources}

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
            tariffs=self.tariffs.joined(other.tariffs),
            rates=(*other.rates, *self.rates),
            sources={**other._sources, **self._sources},
            bounds={**other.bounds, **self.bounds},
        )

    def refreshed(
        self,
        current: Callable[[InstanceType], Iterable[Price]],
        interruptions: Callable[[InstanceType], Mapping[str, Interruption]],
        tariffs: TariffTable | None = None,
        rates: Sequence[Rate] = (),
    ) -> Market:
        """This market with newer prices, which replace those for the same offer.

        Args:
            current: the newer prices of a type; their sources are among the market's.
            interruptions: newer rates of interruption of a type, by region.
            tariffs: newer tariffs, if any; see :meth:`gpucloud_pricing.TariffTable.refreshed`.
            rates: exchange rates: each replaces that for the same currencies, unless it is older.
        """

        def prices(kind: InstanceType) -> Iterator[Price]:
            newer = list(current(kind))
            told = {(price.region, price.purchase) for price in newer}
            yield from newer
            yield from (old for old in self._prices(kind) if (old.region, old.purchase) not in told)

        def bands(kind: InstanceType) -> Mapping[str, Interruption]:
            return {**self._interruptions(kind), **interruptions(kind)}

        return self._with(
            prices,
            bands,
            tariffs=tariffs and self.tariffs.refreshed(tariffs),
            rates=_newest_rates((*self.rates, *rates)),
        )

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
        tariffs: TariffTable | None = None,
        rates: tuple[Rate, ...] | None = None,
    ) -> Market:
        """This market with other prices and rates of interruption, their sources, and what else is given."""
        return Market(
            types=self.types,
            regions=self.regions,
            prices=prices,
            zones=self._zones,
            interruptions=interruptions,
            tariffs=tariffs or self.tariffs,
            rates=self.rates if rates is None else rates,
            sources={**self._sources, **{source.id: source for source in sources}},
            bounds=self.bounds,
        )

    def types_named(self, demand: Demand) -> list[InstanceType]:
        """The types with one of a demand's GPUs and one of its names; all types, if it has neither."""
        return [kind for kind in self._kinds(demand) if rules.instance_type(demand, kind) is None]

    def search(self, demand: Demand, today: date, limit: int | None = None) -> list[Offer]:
        """The offers that meet a demand, the best first.

        Unflagged before flagged, implausible prices after both; then by price in USD, age, vCPUs, cloud,
        region, zone and type. Offers without a known price come last.

        Args:
            demand: the demand.
            today: the date for the age of prices and for retired types.
            limit: the maximum number of offers.
        """
        place_rules = rules.asked_of(rules.PLACE_RULES, demand)
        by_zone = bool(demand.zones or demand.volumes)
        allowed: dict[Key | tuple[str, str, str], bool] = {}

        def is_allowed(ranked: Ranked) -> bool:
            place = ranked[4:7]
            key = (
                place if by_zone or place in self._ranking.opt_in else place[:2]
            )  # else the zone is irrelevant
            if key not in allowed:
                allowed[key] = _first(place_rules, demand, self._place(*place)) is None
            return allowed[key]

        most = demand.max_price_usd

        def is_too_dear(ranked: Ranked) -> bool:
            return most is not None and (ranked[0] or ranked[1] > most)

        found: list[Offer] = []
        for lists in zip(*self._candidates(demand, today), strict=True):
            for ranked in heapq.merge(*(each for each in lists if each and not is_too_dear(each[0]))):
                if len(found) == limit:
                    return found
                if is_too_dear(ranked):
                    break  # each that follows costs more, or its price is unknown
                if is_allowed(ranked):
                    offer = self._offer(ranked, today)
                    if rules.max_age(demand, offer, today) is None:
                        found.append(offer)
        return found

    def explain(self, demand: Demand, today: date) -> Explanation:
        """Checks every offer of the market against every rule.

        Same arguments as :meth:`search`; the offers that match are in the same order.
        """
        from gpucloud_pricing.explanation import (  # a search that finds something needs none of it
            Explanation,
            Reason,
            Refusal,
            reasons_by,
            reasons_of_offer,
        )

        near: list[Refusal] = []
        far: list[Refusal] = []
        models = {requirement.model for requirement in demand.gpus} - {None}
        memo: dict[tuple[str, str, str], list[Reason]] = {}
        for kind in self.types.values():
            of_type = reasons_by(rules.TYPE_RULES, demand, kind)
            is_near = kind.gpu_model in models if models else rules.instance_type(demand, kind) is None
            refused = near if is_near else far
            for purchase, entries in self._ranking.of(kind).items():
                status = rules.status(demand, kind, purchase, today)
                fixed = of_type + ([Reason(rule="status", text=status)] if status else [])
                for ranked in entries:
                    key = ranked[4:7]
                    if key not in memo:
                        memo[key] = reasons_by(rules.PLACE_RULES, demand, self._place(*key))
                    offer = self._offer(ranked, today)
                    reasons = fixed + memo[key] + reasons_of_offer(demand, offer, today)
                    if reasons:
                        refused.append(Refusal(offer=offer, reasons=tuple(reasons)))

        unmet = self._unmet_counts(demand)

        def distance(refusal: Refusal) -> tuple[object, ...]:
            return len(refusal.reasons), order(refusal.offer)

        return Explanation(
            matched=tuple(self.search(demand, today)),
            refused=(*sorted(near, key=distance), *sorted(far, key=distance)),
            near=len(near),
            other_counts={gpu: counts for gpu, (_, counts) in unmet.items()},
            asked_counts={gpu: asked for gpu, (asked, _) in unmet.items()},
        )

    def _unmet_counts(self, demand: Demand) -> dict[str, tuple[Decimal, tuple[Decimal, ...]]]:
        """The GPUs of a demand that no type has in the requested count; that count, and the existing ones."""
        kinds = self.types.values()
        unmet = [w for w in demand.gpus if w.mig is None and not any(rules.grants(w, kind) for kind in kinds)]
        found: dict[str, tuple[Decimal, tuple[Decimal, ...]]] = {}
        for requirement in unmet:
            one = replace(requirement, min_count=Decimal(1), max_count=Decimal(1))
            any_count = replace(requirement, min_count=Decimal(0), max_count=Decimal(MAX_COUNT))
            counts = {kind.gpu_count for kind in kinds if rules.grants(any_count, kind)}
            found[format_requirement(one)] = requirement.min_count, tuple(sorted(counts))
        return found

    def check(self, demand: Demand) -> None:
        """Checks that every cloud, region, zone and instance type of a demand exists.

        Raises:
            BadPlaceError: one does not.
        """
        regions = frozenset(name for region in self.regions.values() for name in region_names(region))
        clouds = frozenset(cloud for cloud, _ in self.types)
        for field, patterns, names in (
            ("clouds", demand.clouds, clouds),
            ("regions", demand.regions, regions),
            ("residency", demand.residency, regions),
            ("zones", demand.zones, frozenset[str]()),
        ):
            known = names
            if field in {"regions", "zones"} and not all(knows(known, pattern) for pattern in patterns):
                # a last resort, because zones are only known once every price is ranked
                known |= frozenset(
                    self._opt_in_zones() if field == "regions" else (zone for _, _, zone in self._all_zones())
                )
            for pattern in patterns:
                if not knows(known, pattern):
                    ids = self._zone_ids(pattern) if field == "zones" else ()
                    existing = self._existing(field, demand)
                    raise BadPlaceError(field, pattern, known, existing, zone_ids=ids)
        types = frozenset(name for _, name in self.types)
        for pattern in demand.instance_types:
            if not knows_type(types, pattern):
                raise BadPlaceError(
                    "instance_types", pattern, types, self._existing("instance_types", demand)
                )

    def _zone_ids(self, name: str) -> Iterable[str]:
        """The zones of a region that has IDs for them, for a name that an account has: ``us-west-2a``."""
        region = name.removeprefix("!")[:-1]
        if not re.fullmatch(r"[a-z]+(-[a-z]+)+-[0-9][a-z]", name.removeprefix("!")):
            return ()
        zones = {zone for _, each, zone in self._all_zones() if each == region}
        named = {zone for zone in zones if zone.startswith(region)}  # as in accounts, and local zones
        return () if any(zone[:-1] == region for zone in named) else zones - named

    def _existing(self, field: str, demand: Demand) -> dict[str, set[str]]:
        """The names that exist at the clouds of a demand, by cloud; zones are those of its regions."""
        if field == "clouds":
            return {cloud: {cloud} for cloud, _ in self.types}
        if field == "instance_types":
            names = {(kind.cloud, kind.name) for kind in self._kinds(demand)}
        elif field in {"regions", "residency"}:
            names = set(self.regions)
        else:
            names = {
                (cloud, zone)
                for cloud, region, zone in self._all_zones()
                if admits(demand.regions, region_names(self.regions[cloud, region]))
            }
        found: dict[str, set[str]] = defaultdict(set)
        for cloud, name in names:
            if admits(demand.clouds, frozenset({cloud})):
                found[cloud].add(name)
        return found

    def _all_zones(self) -> set[tuple[str, str, str]]:
        """Every zone, with its cloud and region."""
        ranked = (entries for kind in self.types.values() for entries in self._ranking.of(kind).values())
        priced = {entry[4:7] for entries in ranked for entry in entries if entry[6]}
        named = {
            (cloud, name, zone) for (cloud, name), region in self.regions.items() for zone in region.zones
        }
        return priced | named

    def _opt_in_zones(self) -> frozenset[str]:
        self._all_zones()
        return frozenset(zone for _, _, zone in self._ranking.opt_in)

    def usd(self, amount: Decimal, currency: str) -> Decimal | None:
        """An amount in USD at the reference rate, unrounded; ``None`` without a rate."""
        return in_usd(self._rates, amount, currency)

    def converted(self, amount: Decimal, currency: str, into: str) -> Decimal | None:
        """An amount in another currency at the reference rates, unrounded; ``None`` without a rate."""
        usd, rate = self.usd(amount, currency), self._rates.get(into)
        return amount if currency == into else None if usd is None or rate is None else usd * rate

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

    def _candidates(self, demand: Demand, today: date) -> Iterator[Choices]:
        """The prices of each type and way of paying that may match."""
        type_rules = rules.asked_of(rules.TYPE_RULES, demand)
        for kind in self._kinds(demand):
            if _first(type_rules, demand, kind) is not None:
                continue
            ranked = self._ranking.of(kind)
            for purchase in dict.fromkeys(demand.purchases):
                if purchase in ranked and rules.status(demand, kind, purchase, today) is None:
                    yield self._choices(kind, purchase, today)

    def _choices(self, kind: InstanceType, purchase: str, today: date) -> Choices:
        """A type's prices in one way of paying; kept, since a search in all of them takes long."""
        key = (kind.cloud, kind.name, purchase, today)
        if key not in self._chosen:
            choices = self._chosen[key] = Choices([], [], [], [])
            for ranked in self._ranking.of(kind)[purchase]:
                known = None if ranked[0] else rules.caution(self._flags(ranked, today))
                (choices.unpriced if known is None else choices[known]).append(ranked)
        return self._chosen[key]

    def _kinds(self, demand: Demand) -> Iterable[InstanceType]:
        """The types with the GPUs; all types, if the demand has no model."""
        if any(requirement.model is None for requirement in demand.gpus) or not demand.gpus:
            return self.types.values()
        models = dict.fromkeys(requirement.model or "" for requirement in demand.gpus)
        kinds = (kind for model in models for kind in self._by_model.get(model, ()))
        return (kind for kind in kinds if any(rules.grants(requirement, kind) for requirement in demand.gpus))

    def _place(self, cloud: str, region: str, zone: str) -> OfferPlace:
        key = (cloud, region, zone)
        if key not in self._places:
            self._places[key] = rules.place_of(self.regions[cloud, region], zone or None)
        return self._places[key]

    def _offer(self, ranked: Ranked, today: date) -> Offer:
        no_usd, usd, _, _, cloud, region, zone, name, _, kind, purchase, price = ranked
        band = None
        if KINDS[purchase].interruptible:
            key = (cloud, name)
            if key not in self._bands:
                self._bands[key] = self._interruptions(kind)
            band = self._bands[key].get(region)
        return Offer(
            kind=kind,
            region=region,
            zone=zone or None,
            purchase=purchase,
            quote=price,
            price_usd=None if no_usd else usd,
            flags=self._flags(ranked, today),
            interruption=band,
        )

    def _flags(self, ranked: Ranked, today: date) -> tuple[str, ...]:
        no_usd, usd, _, _, _, region, zone, _, _, kind, purchase, price = ranked
        flags = rules.flags(kind, purchase, price.as_of if price else None, today)
        listed = usd  # a discount of the user's own makes no price implausible
        if price is not None and price.discount:
            listed = self.usd(price.amount, price.currency) or usd
        if (
            not no_usd
            and not KINDS[purchase].paid_already
            and not self.is_plausible(kind.gpu_model, listed / kind.gpu_count)
        ):
            flags += (IMPLAUSIBLE,)
        if KINDS[purchase].price_moves and price is not None and price.as_of < today:  # not asked for today
            odd = self._ranking.odd_zones(kind).get((region, zone))
            flags += () if odd is None else (odd,) if IMPLAUSIBLE in flags else (IMPLAUSIBLE, odd)
        return flags


def _newest_rates(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """The newest rate of each pair of currencies; of two of one day, the later in the list."""
    newest: dict[tuple[str, str], Rate] = {}
    for rate in sorted(rates, key=lambda rate: rate.as_of):
        newest[rate.base, rate.quote] = rate
    return tuple(newest.values())


def _first(table: Sequence[Callable[[Demand, T], str | None]], demand: Demand, subject: T) -> str | None:
    for rule in table:
        if reason := rule(demand, subject):
            return reason
    return None
