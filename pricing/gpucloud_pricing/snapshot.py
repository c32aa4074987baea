"""Reads the prices and tariffs that ship with the package, or newer ones of the package ``gpucloud-prices``.

That package holds data alone, in a folder for each form of it: ``release/prices_wheel.py`` writes it. A
snapshot is one JSON document, prices grouped by type; the form was chosen by measurement
(``benchmarks/snapshot.py``). Prices stay text until a search needs them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpucloud_pricing.billing import billing_of
from gpucloud_pricing.tariffs import OtherFigure, Tariff, TariffTable
from gpucloud_pricing.values import (
    InstanceType,
    Interruption,
    Note,
    Price,
    Rate,
    Region,
    Source,
)

FORM = 1
"""The form of ``snapshot.json`` and ``tariffs.json``; raised when an older program could not read them."""
PACKAGE = "gpucloud_prices"
OWN = Path(__file__).parent
AS_OF = "as_of.txt"
"""The file with the day of the newest price, such as 2026-11-26."""


@cache
def shipped_data() -> Path:
    """The folder of the newer data. Nothing of the other package is run."""
    found = find_spec(PACKAGE)
    for place in (found and found.submodule_search_locations) or ():
        folder = Path(place) / f"form_{FORM}"
        with suppress(FileNotFoundError):  # it has no data of this form
            if _as_of(folder) > _as_of(OWN):
                return folder
    return OWN


def _as_of(folder: Path) -> str:
    return (folder / AS_OF).read_text(encoding="ascii").strip()


SNAPSHOT = Path(__file__).with_name("snapshot.json")
"""The program's own."""


class Snapshot:
    """The snapshot's tables, each read at its first use."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        origins: list[tuple[str, str]] = raw["origins"]
        self._origins = [(date.fromisoformat(day), source) for day, source in origins]
        self._strings: list[str] = raw["strings"]

    @classmethod
    def read(cls, path: Path | None = None) -> Snapshot:
        """Reads the newest installed snapshot, or another one."""
        return cls(json.loads((path or shipped_data() / SNAPSHOT.name).read_bytes()))

    @cached_property
    def types(self) -> dict[tuple[str, str], InstanceType]:
        """Every instance type by cloud and name."""
        return {(row["cloud"], row["name"]): _instance_type(row) for row in self._raw["types"]}

    @cached_property
    def _by_type(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        return {(row["cloud"], row["name"]): row for row in self._raw["types"]}

    @cached_property
    def regions(self) -> dict[tuple[str, str], Region]:
        """Every region by cloud and name."""
        return {
            (cloud, name): Region(
                cloud=cloud,
                name=name,
                display_name=display_name,
                geos=frozenset(geos),
                partition=partition,
                opt_in_zones=opt_in,
                zones=tuple(zones),
            )
            for cloud, name, display_name, geos, partition, opt_in, zones in self._raw["regions"]
        }

    def prices(self, kind: InstanceType) -> Iterator[Price]:
        """The prices of one type."""
        words, origins = self._strings, self._origins
        rows: list[tuple[int, int, int, str, int, int, *tuple[str, ...]]]
        rows = self._by_type[kind.cloud, kind.name]["prices"]
        for purchase, region, zone, amount, currency, origin, *upfront in rows:
            as_of, source = origins[origin]
            yield Price(
                cloud=kind.cloud,
                region=words[region],
                zone=None if zone < 0 else words[zone],
                instance_type=kind.name,
                purchase=words[purchase],
                amount=Decimal(amount),
                currency=words[currency],
                as_of=as_of,
                source=source,
                upfront=Decimal(upfront[0]) if upfront else Decimal(0),
            )

    def zones(self, kind: InstanceType) -> dict[str, list[str]]:
        """The zones that offer a type, by region."""
        words = self._strings
        rows: list[tuple[int, list[int]]] = self._by_type[kind.cloud, kind.name]["zones"]
        return {words[region]: [words[zone] for zone in zones] for region, zones in rows}

    def zones_origin(self, cloud: str) -> tuple[date, str]:
        """Date and source of the data about a cloud's zones."""
        index: int = self._raw["zone_origins"][cloud]
        return self._origins[index]

    def interruptions(self, kind: InstanceType) -> dict[str, Interruption]:
        """The rates of a type's spot interruptions, by region."""
        words, origins = self._strings, self._origins
        rows: list[tuple[int, int, int, int, int]] = self._by_type[kind.cloud, kind.name]["interruptions"]
        return {
            words[region]: Interruption(
                low=low,
                high=high,
                savings_percent=savings,
                as_of=origins[origin][0],
                source=origins[origin][1],
            )
            for region, low, high, savings, origin in rows
        }

    @cached_property
    def bounds(self) -> dict[str, tuple[Decimal, Decimal]]:
        """The lowest and highest known price per hour and GPU of each model, in USD."""
        return {model: (Decimal(low), Decimal(high)) for model, (low, high) in self._raw["bounds"].items()}

    @cached_property
    def rates(self) -> tuple[Rate, ...]:
        """Reference exchange rates."""
        return tuple(
            Rate(base=base, quote=quote, rate=Decimal(rate), as_of=date.fromisoformat(as_of), source=source)
            for base, quote, rate, as_of, source in self._raw["rates"]
        )

    @cached_property
    def sources(self) -> dict[str, Source]:
        """Every source by id."""
        names = ("id", "repository", "path", "commit", "date", "licence", "note")
        return {row[0]: Source(**dict(zip(names, row, strict=True))) for row in self._raw["sources"]}


@cache
def shipped_type_names() -> tuple[str, ...]:
    """The names of the instance types in the shipped snapshot, sorted."""
    return tuple(sorted(name for _, name in Snapshot.read().types))


def _instance_type(row: Mapping[str, Any]) -> InstanceType:
    model, count, memory, vcpus, main_memory, interconnect, rdma, network, ssd, arch, source = row["hardware"]
    return InstanceType(
        cloud=row["cloud"],
        name=row["name"],
        gpu_model=model,
        gpu_count=Decimal(count),
        gpu_memory_gib=Decimal(memory),
        vcpus=vcpus,
        memory_gib=Decimal(main_memory),
        interconnect=interconnect,
        rdma=rdma,
        network_gbps=Decimal(network) if network else None,
        local_ssd_gib=Decimal(ssd) if ssd else None,
        arch=arch,
        source=source,
        billing=billing_of(row["cloud"]),
        notes=tuple(
            Note(
                status=status,
                effective=date.fromisoformat(effective) if effective else None,
                note=note,
                source=note_source,
            )
            for status, effective, note, note_source in row["notes"]
        ),
    )


TARIFFS = Path(__file__).with_name("tariffs.json")
"""The program's own."""
GAPS = Path(__file__).parent / "data" / "tariff_gaps.csv"
"""The regions with offers whose total is not complete, and why: columns provider, region, kind, reason."""


def shipped_tariffs(path: Path | None = None) -> TariffTable:
    """The table of the newest installed tariffs, or of another file of the same form."""

    @cache
    def raw() -> Mapping[str, Any]:
        document: Mapping[str, Any] = json.loads((path or shipped_data() / TARIFFS.name).read_bytes())
        return document

    def rows(cloud: str, region: str, kind: str) -> Iterator[Tariff]:
        for number in raw()["places"].get(f"{cloud} {region} {kind}", ()):
            yield from _tariffs(raw(), raw()["lists"][number], cloud, region, kind)

    def sources() -> Mapping[str, Source]:
        return {row["id"]: Source(**row) for row in raw()["sources"]}

    return TariffTable(rows, sources)


def _tariffs(
    raw: Mapping[str, Any], price_list: Mapping[str, Any], cloud: str, region: str, kind: str
) -> Iterator[Tariff]:
    """The tariffs of one list of the file: what its steps share, and its steps."""
    as_of, source = _origin(raw, price_list["origin"])
    for sku, tier_from, tier_to, amount, *other in price_list["steps"]:
        yield Tariff(
            cloud=cloud,
            region=region,
            kind=kind,
            sku=sku,
            unit=price_list["unit"],
            amount=Decimal(amount),
            currency=price_list["currency"],
            as_of=as_of,
            source=source,
            tier_from=Decimal(tier_from or 0),
            tier_to=Decimal(tier_to) if tier_to else None,
            to=price_list["to"],
            terms=price_list["terms"],
            fallback=price_list["fallback"],
            other=_other(raw, *other) if other else None,
        )


def _other(raw: Mapping[str, Any], amount: str, currency: str, number: int) -> OtherFigure:
    as_of, source = _origin(raw, number)
    return OtherFigure(amount=Decimal(amount), currency=currency, as_of=as_of, source=source)


def _origin(raw: Mapping[str, Any], number: int) -> tuple[date | None, str]:
    """The date, if it is known, and the source of a figure."""
    day, source = raw["origins"][number]
    return date.fromisoformat(day) if day else None, source
