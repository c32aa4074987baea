"""What the emulated clouds sell: the catalog's types, zones and prices, and the changes to them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from gpucloud_pricing.rules import NEEDS_GRID
from gpucloud_pricing.snapshot import shipped_tariffs
from gpucloud_pricing.tariffs import (
    Tariff,
    TariffCost,
    TariffTable,
    address_price,
    disk_price,
    snapshot_price,
)
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Database

HOURS_PER_MONTH = 730
_SHIPPED = shipped_tariffs()
_DOLLARS_PER_EURO = Decimal("1.1")
"""The sandbox's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One type's hardware. ``gpu_count`` below 1 is the share of one GPU; 0 is a machine without any."""

    name: str
    gpu_model: str
    gpu_count: Decimal
    gpu_memory_gib: int
    vcpus: int
    memory_gib: Decimal
    interconnect: str
    rdma: str
    arch: str
    local_ssd_gib: int = 0
    needs_grid: bool = False

    @property
    def driven_gpus(self) -> int:
        """How many GPUs the drivers of images and boot steps find: none of them is GRID, for vGPUs."""
        return 0 if self.needs_grid else self.whole_gpus

    @property
    def whole_gpus(self) -> int:
        """How many GPUs the instance sees; a share of one is seen as one."""
        return max(1, int(self.gpu_count)) if self.gpu_count else 0

    @property
    def gpu_memory_mib(self) -> int:
        """The memory that the instance sees on each of them."""
        return int(self.gpu_memory_gib * 1024 * min(Decimal(1), self.gpu_count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price per hour, and since when it applies."""

    amount: Decimal
    currency: str
    as_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """A rule about stock: at most ``count`` instances at a time in each zone that matches. Globs."""

    count: int
    cloud: str = "*"
    region: str = "*"
    zone: str = "*"
    instance_type: str = "*"
    purchase: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """Percent of a month's spot instances that were taken back, and what they save."""

    low: int
    high: int
    savings_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceMove:
    """A rule about a price: another ``amount`` per hour, or the catalog's times ``factor``. Globs.

    With ``tariff``, a glob too, it is about tariffs of such a kind, and of no machine.
    """

    cloud: str = "*"
    region: str = "*"
    zone: str = "*"
    instance_type: str = "*"
    purchase: str = "*"
    amount: str | None = None
    factor: str | None = None
    tariff: str = ""
    at: str = ""


class Catalog:
    """One cloud's part of the price data, read when first asked for."""

    def __init__(self, cloud: str) -> None:
        self.cloud = cloud

    @cached_property
    def types(self) -> Mapping[str, InstanceType]:
        """The types by name."""
        grid = {row["instance_type"] for row in self._rows("instance_notes") if row["status"] == NEEDS_GRID}
        return {
            row["instance_type"]: InstanceType(
                name=row["instance_type"],
                gpu_model=row["gpu_model"],
                gpu_count=Decimal(row["gpu_count"]),
                gpu_memory_gib=int(row["gpu_memory_gib_per_gpu"]),
                vcpus=int(row["vcpus"]),
                memory_gib=Decimal(row["memory_gib"]),
                interconnect=row["gpu_interconnect"],
                rdma=row["rdma"],
                arch=row["arch"],
                needs_grid=row["instance_type"] in grid,
                local_ssd_gib=int(row["local_ssd_gib"] or 0),
            )
            for row in self._rows("instance_types")
        } | {name: _without_gpu(row) for name, row in self._cpu_types.items()}

    @cached_property
    def interruptions(self) -> Mapping[tuple[str, str], Interruption]:
        """How often spot instances were taken back, by region and type."""
        return {
            (row["region"], row["instance_type"]): Interruption(
                low=int(row["interruption_rate_low"]),
                high=int(row["interruption_rate_high"]),
                savings_percent=int(row["savings_percent"]),
            )
            for row in self._rows("spot_interruption")
        }

    @cached_property
    def zones(self) -> Mapping[str, tuple[str, ...]]:
        """The zones of each region, in the market's terms."""
        return {row["region"]: tuple(filter(None, row["zones"].split(";"))) for row in self._rows("regions")}

    @cached_property
    def prices(self) -> Mapping[tuple[str, str, str, str], Price]:
        """Prices per hour by region, zone (empty for a regional price), type and way of paying."""
        known = {
            (row["region"], row["zone"], row["instance_type"], row["purchase"]): Price(
                amount=Decimal(row["price_per_hour"]), currency=row["currency"], as_of=row["as_of"]
            )
            for row in self._rows("offers")
        }
        by_month = {
            (row["region"], "", row["instance_type"], "subscription_1m"): Price(
                amount=Decimal(row["price_per_hour_730h"]), currency=row["currency"], as_of=row["as_of"]
            )
            for row in self._rows(f"{self.cloud}_subscription_monthly")
        }
        return known | by_month | dict(self._cpu_prices())

    @cached_property
    def offered(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """In which zones of a region each type is offered.

        What the zone data does not know (AWS p3) is offered where it has a price: in the zones of its spot
        prices and in all others of that region.
        """
        offered: dict[tuple[str, str], set[str]] = {}
        for row in self._rows("zone_offerings"):
            offered.setdefault((row["region"], row["instance_type"]), set()).add(row["zone"])
        known_types = {type_ for _, type_ in offered}
        for region, zone, type_, purchase in self.prices:
            if purchase not in {"on_demand", "spot"}:
                continue
            zones = offered.setdefault((region, type_), set())
            if zone:
                zones.add(zone)
            if type_ not in known_types:
                zones.update(self.zones.get(region, ()))
        return {key: frozenset(zones) for key, zones in offered.items()}

    @cached_property
    def currencies(self) -> Mapping[str, str]:
        """The currency of a region's machines, in which a cloud bills all that an account has there."""
        return {region: price.currency for (region, *_), price in self.prices.items()}

    @cached_property
    def _cpu_types(self) -> Mapping[str, dict[str, str]]:
        """The rows of the types without a GPU: the sandbox's own data, for gpucloud's market has none."""
        return {row["instance_type"]: row for row in self._read(files("gpucloud_sandbox") / "cpu_types.csv")}

    def _cpu_prices(self) -> Iterator[tuple[tuple[str, str, str, str], Price]]:
        """On demand, in all zones of all regions, and everywhere as in the one region of the source."""
        for name, row in self._cpu_types.items():
            price = Price(amount=Decimal(row["price_per_hour"]), currency=row["currency"], as_of=row["as_of"])
            for region in self.zones:
                yield (region, "", name, "on_demand"), price

    def _rows(self, table: str) -> Iterator[dict[str, str]]:
        file = files("gpucloud_pricing") / "data" / f"{table}.csv"
        if file.is_file():
            yield from self._read(file)

    def _read(self, file: Traversable) -> Iterator[dict[str, str]]:
        with file.open(encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                if row["provider"] == self.cloud:
                    yield row


@cache
def catalog(cloud: str) -> Catalog:
    """The catalog of a cloud, which never changes."""
    return Catalog(cloud)


class Market:
    """The catalogs, and the stock and prices that were moved since the sandbox was made. Moves are kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tariffs = TariffTable(self._moved_tariffs)
        self.stock: list[Stock] = [Stock(**rule) for rule in database.setting("stock") or ()]
        self.moves: list[PriceMove] = [PriceMove(**rule) for rule in database.setting("prices") or ()]

    def catalog(self, cloud: str) -> Catalog:
        """One cloud's catalog."""
        return catalog(cloud)

    def set_stock(self, rule: Stock) -> None:
        """Limits the stock. The newest matching rule applies."""
        self.stock.append(rule)
        self._database.keep_setting("stock", [asdict(each) for each in self.stock])

    def move_price(self, move: PriceMove, now: datetime) -> None:
        """Changes a price. The newest matching rule applies."""
        self.moves.append(PriceMove(**{**asdict(move), "at": stamp(now)}))
        self._tariffs = TariffTable(self._moved_tariffs)
        self._database.keep_setting("prices", [asdict(each) for each in self.moves])

    def reset(self) -> None:
        """Everything as in the catalog again, and in unlimited stock."""
        self.stock.clear()
        self.moves.clear()
        self._tariffs = TariffTable(self._moved_tariffs)
        self._database.keep_setting("stock", [])
        self._database.keep_setting("prices", [])

    def limit(self, cloud: str, region: str, zone: str, instance_type: str, purchase: str) -> int | None:
        """How many instances may run at a time; ``None`` for any number."""
        place = (cloud, region, zone, instance_type, purchase)
        return next((rule.count for rule in reversed(self.stock) if _matches(rule, place)), None)

    def price(self, cloud: str, region: str, zone: str, instance_type: str, purchase: str) -> Price | None:
        """Today's price per hour; ``None`` where nothing of the kind is sold. No zone: the region's price."""
        prices = self.catalog(cloud).prices
        price = prices.get((region, zone, instance_type, purchase)) or prices.get(
            (region, "", instance_type, purchase)
        )
        if price is None:
            return None
        place = (cloud, region, zone, instance_type, purchase)
        rules = (rule for rule in reversed(self.moves) if not rule.tariff and _matches(rule, place))
        move = next(rules, None)
        if move is None:
            return price
        amount = Decimal(move.amount) if move.amount is not None else price.amount * Decimal(move.factor or 1)
        return Price(amount=amount, currency=price.currency, as_of=move.at)

    def tariffs(self, cloud: str, region: str, kind: str) -> Sequence[Tariff]:
        """Today's tariffs of a region and kind, by step; those of its own, not those of every region."""
        return [row for row in self._tariffs.at(cloud, region, kind) if row.region == region]

    def disk_price(self, cloud: str, region: str, gib: int) -> Price:
        """What a disk costs per hour; the catalog's dearest region where it does not know this one."""
        month = self._dearest(cloud, region, lambda each: disk_price(self._tariffs, (cloud, each), gib))
        return replace(month, amount=(month.amount * gib / HOURS_PER_MONTH).quantize(Decimal("0.000001")))

    def snapshot_price(self, cloud: str, region: str, gib: int) -> Price:
        """What a snapshot that holds so much costs per hour; likewise."""
        month = self._dearest(cloud, region, lambda each: snapshot_price(self._tariffs, (cloud, each)))
        return replace(month, amount=(month.amount * gib / HOURS_PER_MONTH).quantize(Decimal("0.000001")))

    def address_price(self, cloud: str, region: str) -> Price:
        """What a public address costs per hour; likewise."""
        return self._dearest(cloud, region, lambda each: address_price(self._tariffs, (cloud, each)))

    def _dearest(self, cloud: str, region: str, price_in: Callable[[str], TariffCost | None]) -> Price:
        here = price_in(region)
        regions = self.catalog(cloud).zones
        known = [here] if here else [price for each in regions if (price := price_in(each))]
        dearest = max(known, key=lambda price: price.amount, default=None)
        if dearest is None:
            return Price(amount=Decimal(0), currency="USD", as_of="")
        day = dearest.items[0].tariff.as_of
        currency = self.catalog(cloud).currencies.get(region, dearest.currency)
        return Price(
            amount=converted(dearest.amount, dearest.currency, currency),
            currency=currency,
            as_of=day.isoformat() if day else "",
        )

    def _moved_tariffs(self, cloud: str, region: str, kind: str) -> Iterator[Tariff]:
        """The shipped tariffs of a place and kind, by the newest rule about them."""
        place = (cloud, region, "", "", "")
        rules = (rule for rule in reversed(self.moves) if fnmatchcase(kind, rule.tariff))
        factor = next((Decimal(rule.factor or 1) for rule in rules if _matches(rule, place)), Decimal(1))
        for row in _SHIPPED.at(cloud, region, kind):
            if row.region == region:
                yield replace(row, amount=row.amount * factor)


def in_usd(amount: Decimal, currency: str) -> Decimal:
    """An amount in USD, at the catalog's reference rate."""
    return amount if currency == "USD" else converted(amount, currency, "USD").quantize(Decimal("0.000001"))


def converted(amount: Decimal, currency: str, into: str) -> Decimal:
    """An amount in another currency, at the catalog's reference rates; unrounded."""
    return amount if currency == into else amount / _per_usd(currency) * _per_usd(into)


def _per_usd(currency: str) -> Decimal:
    return Decimal(1) if currency == "USD" else Decimal(_usd_rate(currency)["rate"])


def reference_rates() -> str:
    """The European Central Bank's file, with the catalog's rate from USD to CNY as cross rate, of its day."""
    known = _usd_rate("CNY")
    euro = {"USD": _DOLLARS_PER_EURO, "CNY": _DOLLARS_PER_EURO * Decimal(known["rate"])}
    prices = "".join(f"<Cube currency='{name}' rate='{price:f}'/>" for name, price in euro.items())
    spaces = (
        "xmlns:gesmes='http://www.gesmes.org/xml/2002-08-01' "
        "xmlns='http://www.ecb.int/vocabulary/2002-08-01/eurofxref'"
    )
    day = f"<Cube time='{known['as_of']}'>{prices}</Cube>"
    return f"<gesmes:Envelope {spaces}><Cube>{day}</Cube></gesmes:Envelope>"


def _usd_rate(currency: str) -> Mapping[str, str]:
    """The row of the newest of the catalog's rates from USD to a currency."""
    with (files("gpucloud_pricing") / "data" / "fx_reference.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if (row["base"], row["quote"]) == ("USD", currency)]
    return max(rows, key=lambda row: row["as_of"])


def _without_gpu(row: Mapping[str, str]) -> InstanceType:
    return InstanceType(
        name=row["instance_type"],
        gpu_model="",
        gpu_count=Decimal(0),
        gpu_memory_gib=0,
        vcpus=int(row["vcpus"]),
        memory_gib=Decimal(row["memory_gib"]),
        interconnect="none",
        rdma="none",
        arch=row["arch"],
    )


def _matches(rule: Stock | PriceMove, place: tuple[str, str, str, str, str]) -> bool:
    globs: tuple[Any, ...] = (rule.cloud, rule.region, rule.zone, rule.instance_type, rule.purchase)
    return all(fnmatchcase(value, glob) for value, glob in zip(place, globs, strict=True))
