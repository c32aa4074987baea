"""Reads the tariffs that ship with the package, from a file that is opened when one is first asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from gpucloud_pricing.shipped_data import shipped_data
from gpucloud_pricing.tariff_table import OtherFigure, Tariff, TariffTable
from gpucloud_pricing.values import Source

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
