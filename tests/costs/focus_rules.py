"""The rules of FOCUS 1.2 for a data set of usage charges, as a checker.

``focus_1_2.csv`` has the columns. Its source is the requirements model 1.2.0.1 of the FinOps Foundation
(repository FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec; shipped with focus_validator 2.2.1), read 2026-11-23:

- ``level``: mandatory, conditional (on what the clouds can do: all conditions hold here) or recommended.
- ``null``: ``never``, ``may``, ``usage`` (never in a usage), ``with X`` (exactly where X is null),
  ``without X`` (at least where X is null).
- ``allowed``: the allowed values; of subcategories those of the three categories that gpucloud uses, after
  their category.

The statuses of commitment discounts and the nulls of both statuses are those of the specification's text: in
the model, their machine-readable conditions contradict the text of their own rules.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

Row = Mapping[str, str | None]

_DATA_SIZE = r"([KMGTPE]i?)?[bB]"
_TIMES = r"(Year|Month|Day|Hour|Minute|Second)"
TYPES = {
    "string": re.compile(r".*\S.*", re.DOTALL),
    "object": re.compile(r"\{.*\}"),
    "decimal": re.compile(r"-?(0|[1-9]\d*)(\.\d+)?"),
    "price": re.compile(r"(0|[1-9]\d*)(\.\d+)?"),
    "datetime": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "currency": re.compile(r"[A-Z]{3}"),
    "unit": re.compile(rf"{_TIMES}s|{_DATA_SIZE}(-{_TIMES}s)?"),
}
"""The text of each type; of units those of time and data, which are the ones used here."""


@dataclass(frozen=True)
class Column:
    """One column of FOCUS."""

    column: str
    level: str
    type: str
    null: str
    allowed: str


with (Path(__file__).parent / "focus_1_2.csv").open(newline="") as file:
    COLUMNS = {row["column"]: Column(**row) for row in csv.DictReader(file)}


def violations(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """What in a data set is against the rules; empty if nothing is."""
    found = list(_of_names(names))
    if not found:
        found += [text for row in rows for text in _of_row(row)]
        found += _of_identity(rows)
    return found


def _of_names(names: Sequence[str]) -> Iterator[str]:
    own = [name for name in names if name not in COLUMNS]
    yield from (f"{name} is missing" for name in COLUMNS if name not in names)
    yield from (f"{name} needs the prefix x_" for name in own if not name.startswith("x_"))
    if list(names[len(names) - len(own) :]) != own:
        yield "columns of FOCUS come first"
    yield from (f"{name} is longer than 50 characters" for name in names if len(name) > 50)
    if len(set(names)) < len(names):
        yield "a column stands twice"


def _of_row(row: Row) -> Iterator[str]:
    for column in COLUMNS.values():
        value = row[column.column]
        if value is None:
            if _needs_value(column, row):
                yield f"{column.column} is null"
            continue
        if not _may_have_value(column, row):
            yield f"{column.column} is not null"
        if not TYPES[column.type].fullmatch(value):
            yield f"{column.column}: {value!r} is no {column.type}"
        elif column.allowed and _qualified(column.column, row) not in column.allowed.split("|"):
            yield f"{column.column}: {value!r} is not allowed"
    if not any(True for _ in _unreadable(row)):
        yield from _of_sums(row)
        yield from _of_periods(row)
        yield from _of_objects(row)


def _unreadable(row: Row) -> Iterator[str]:
    """The columns of numbers and times that the rules below cannot read."""
    for column in COLUMNS.values():
        if column.type in {"decimal", "price", "datetime"} and column.null in {"never", "usage"}:
            value = row[column.column]
            if value is None or not TYPES[column.type].fullmatch(value):
                yield column.column


def _needs_value(column: Column, row: Row) -> bool:
    rule, _, other = column.null.partition(" ")
    if rule == "usage":
        return row["ChargeCategory"] in {"Usage", "Purchase"} and row["ChargeClass"] != "Correction"
    return rule == "never" or (rule == "with" and row[other] is not None)


def _may_have_value(column: Column, row: Row) -> bool:
    rule, _, other = column.null.partition(" ")
    return rule not in {"with", "without"} or row[other] is not None


def _qualified(name: str, row: Row) -> str | None:
    return f"{row['ServiceCategory']}/{row[name]}" if name == "ServiceSubcategory" else row[name]


def _of_sums(row: Row) -> Iterator[str]:
    quantity = _number(row, "PricingQuantity")
    for price, cost in (("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")):
        if _number(row, price) * quantity != _number(row, cost):
            yield f"{cost} is not {price} x PricingQuantity"
    if row["ChargeCategory"] == "Purchase" and row["ChargeFrequency"] == "Usage-Based":
        yield "a purchase is not usage-based"


def _number(row: Row, name: str) -> Decimal:
    return Decimal(row[name] or "0")


def _of_periods(row: Row) -> Iterator[str]:
    names = ("BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodEnd")
    first, start, end, last = (datetime.fromisoformat(row[name] or "") for name in names)
    if not first <= start < end <= last:
        yield "the charge period is not within the billing period"


def _of_objects(row: Row) -> Iterator[str]:
    for name in (column.column for column in COLUMNS.values() if column.type == "object"):
        pairs: list[tuple[str, object]] = json.loads(row[name] or "{}", object_pairs_hook=list)
        if len({key for key, _ in pairs}) < len(pairs):
            yield f"{name}: a key stands twice"
        if any(isinstance(value, (list, dict)) for _, value in pairs):
            yield f"{name}: a value is no number, text or boolean"
    if row["ResourceName"] is not None and row["ResourceName"] == row["ResourceId"]:
        yield "ResourceName repeats ResourceId"


def _of_identity(rows: Sequence[Row]) -> Iterator[str]:
    one_each: tuple[tuple[str, Callable[[Row], object]], ...] = (
        ("SkuPriceId", lambda row: row["SkuId"]),
        ("SkuId", lambda row: row["SkuMeter"]),
        ("ServiceName", lambda row: (row["ServiceCategory"], row["ServiceSubcategory"])),
    )
    for name, of in one_each:
        if len({(row[name], of(row)) for row in rows}) > len({row[name] for row in rows}):
            yield f"a {name} has several parents"
    keys = [(row["ResourceId"], row["SkuPriceId"], row["ChargePeriodStart"]) for row in rows]
    if len(set(keys)) < len(keys):
        yield "a resource has two rows for one period and price"
