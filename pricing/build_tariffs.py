"""Chooses the tariffs that ship with the package from all that were found, and writes ``tariffs.json``.

``data/tariffs.csv`` keeps every price that was read, from every source. What a box uses is in :data:`SOLD`;
of several lists for one thing the best is shipped, and a second one that disagrees is kept beside it.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpucloud_pricing.purchases import HOURS_PER_MONTH, Purchase

Row = dict[str, str]
Key = tuple[str, str, str, str, str]
"""What a list is for: cloud, region, kind, destination and terms."""
Step = tuple[str, str, str]
"""One step of a list: its bounds (an empty one is none) and its price."""

SOLD: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("aws", "disk"): (r"EBS gp3 storage$",),
    ("aws", "address"): (r"Public IPv4 address, in use$",),
    ("aws", "egress"): (r"Data transfer out to internet$",),
    ("aws", "egress_allowance"): (r"Internet egress free allowance",),
    ("aws", "inter_region"): (r"Data transfer to [a-z]+(-[a-z]+)+-\d+$",),
    ("aws", "inter_zone"): (r"Between zones", r"Regional transfer between zones"),
    ("aws", "snapshot"): (r"EBS snapshot",),
    ("aws", "object_storage"): (r"S3 Standard$",),
    ("azure", "disk"): (r"Premium SSD LRS P\d+ ",),
    ("azure", "address"): (r"Standard static IPv4$",),
    ("azure", "egress"): (r"Internet egress via Microsoft network",),
    ("azure", "inter_region"): (r"To a region of ", r"Within "),
    ("azure", "inter_zone"): (r"Between availability zones",),
    ("azure", "snapshot"): (r"Managed disk snapshot, Standard HDD LRS$",),
    ("azure", "object_storage"): (r"Blob Hot LRS, first tier$",),
    ("alibaba", "disk"): (r"ESSD PL1",),
    ("alibaba", "address"): (r"Static public IPv4 of an ECS instance, pay-by-traffic$",),
    ("alibaba", "egress"): (r"Public (network|traffic)", r"EIP traffic"),
    ("alibaba", "inter_region"): (r"Between regions",),
    ("alibaba", "inter_zone"): (r"Between zones",),
    ("alibaba", "snapshot"): (r"Standard snapshot",),
    ("alibaba", "object_storage"): (r"OSS Standard LRS",),
}
"""How the names of what gpucloud buys, or a box uses, begin. The rest of the data is for other things: other
classes of disks, reserved addresses that no machine has, allowances of services that an account must first
activate (Alibaba Cloud's CDT), opt-in routing."""
FALLBACKS = (
    "derived",
    "second-hand",
    "older list",
    "older source",
    "typical",
    "default",
    "grouping on the vendor page",
)
"""Words in a name that make a list the last resort."""
STANDINGS = ("second_hand", "page", "dump")
"""How near to the vendor a source is: quoted by somebody, on a page of the vendor, from its price list."""
NO_ALLOWANCE = ("us-gov-", "cn-")
"""Regions of AWS where the free allowance is not given: UNVERIFIED, and so the dearer reading."""
CONTINENTS = {
    "Within North America or within Europe": ("NA", "EU"),
    "Within Asia or Middle East and Africa": ("AP", "ME", "AF"),
    "Within South America": ("SA",),
}
"""The geo groups of ``regions.csv`` that a source's groups of regions stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSteps:
    """The steps that one source states for one thing."""

    key: Key
    sku: tuple[str, ...]
    unit: str
    currency: str
    as_of: str
    source: str
    steps: tuple[Step, ...]
    fallback: str
    others: dict[Step, StatedSteps] = field(default_factory=dict[Step, "StatedSteps"])


def build_tariffs(data: Path) -> bytes:
    """The shipped file of tariffs, from the CSV files in a folder; the same files give the same bytes."""
    regions = {(row["provider"], row["region"]): row["geo"] for row in _read(data / "regions.csv")}
    currencies = {
        (row["provider"], row["region"]): row["currency"]
        for row in _read(data / "offers.csv")
        if row["purchase"] == Purchase.ON_DEMAND
    }
    sources = _read(data / "tariff_sources.csv")
    standing = {row["id"]: STANDINGS.index(row["standing"]) for row in sources}
    found: dict[Key, list[StatedSteps]] = defaultdict(list)
    for price_list in price_lists(_read(data / "tariffs.csv"), regions):
        found[price_list.key].append(price_list)
    chosen = [
        choose(lists, currencies.get((key[0], key[1]), ""), standing) for key, lists in sorted(found.items())
    ]
    return _document(chosen, sources)


def price_lists(rows: Iterable[Row], regions: Mapping[tuple[str, str], str]) -> list[StatedSteps]:
    """The lists of what a box uses, one per source and thing.

    Args:
        rows: the rows of ``tariffs.csv``.
        regions: the geo group of each region, by cloud and region.
    """
    steps: dict[tuple[Any, ...], dict[Step, str]] = defaultdict(dict)
    for raw in rows:
        for row in _placed(raw, regions):
            sku, step, unit = _normal(row)
            terms = "subscription" if "subscription" in sku else ""
            key = (row["provider"], row["region"], row["kind"], row["to"], terms)
            about = (key, unit, row["currency"], row["as_of"], row["source"], _fallback(row["sku"]))
            steps[about][step] = sku
    return [
        StatedSteps(
            key=key,
            sku=tuple(told.values()),
            unit=unit,
            currency=currency,
            as_of=f"{as_of}-01" if len(as_of) == len("2024-05") else as_of,
            source=source,
            steps=tuple(told),
            fallback=fallback,
        )
        for (key, unit, currency, as_of, source, fallback), told in steps.items()
    ]


def choose(lists: Iterable[StatedSteps], currency: str, standing: Mapping[str, int]) -> StatedSteps:
    """The best of several lists for one thing, with what the next one says where it disagrees.

    No last resort; then in the currency of the region's machines, whose account pays by the same price list;
    then nearest to the vendor, newest, and most complete.

    Args:
        lists: at least one.
        currency: the currency of the region's machines; empty if unknown.
        standing: the index in :data:`STANDINGS` of each source.
    """

    def merit(each: StatedSteps) -> tuple[Any, ...]:
        near = standing[each.source]
        return not each.fallback, each.currency == currency, near, each.as_of, len(each.steps)

    best, *rest = sorted(lists, key=merit, reverse=True)
    others: dict[Step, StatedSteps] = {}
    for step in best.steps:
        doubts = (each for each in rest for told in each.steps if _disagree(best, step, each, told))
        if other := next(doubts, None):
            others[step] = other
    second_hand = "second-hand" if standing[best.source] == STANDINGS.index("second_hand") else ""
    return replace(best, others=others, fallback=best.fallback or second_hand)


def _disagree(best: StatedSteps, step: Step, each: StatedSteps, told: Step) -> bool:
    """Whether a step of another list is for the same quantities and states another price.

    Lists in several currencies are lists of their own, not conversions, and do not disagree.
    """
    same = told[1] == step[1] or len(best.steps) == len(each.steps) == 1
    return same and each.currency == best.currency and Decimal(told[2]) != Decimal(step[2])


def _placed(row: Row, regions: Mapping[tuple[str, str], str]) -> Iterator[Row]:
    """A row of something that a box uses, per region that it is for, with its destination; else nothing."""
    cloud, sku = row["provider"], row["sku"]
    kind = "egress_allowance" if "allowance" in sku else row["kind"]
    if not any(re.match(pattern, sku) for pattern in SOLD.get((cloud, kind), ())):
        return
    named, to = [row["region"]], ""
    if kind == "egress_allowance":
        here = [region for provider, region in regions if provider == cloud]
        named = [region for region in here if not region.startswith(NO_ALLOWANCE)]
    elif kind == "inter_region" and sku in CONTINENTS:
        to, geos = "continent", CONTINENTS[sku]
        named = [region for (provider, region), geo in regions.items() if provider == cloud and geo in geos]
    elif kind == "inter_region":
        to = "continent" if sku.endswith("same continent") else sku.removeprefix("Data transfer to ")
        to = "*" if " " in to else to
    elif kind == "inter_zone":
        named = ["*"]  # a meter that was read in one region stands for all
    for region in named:
        yield {**row, "region": region, "kind": kind, "to": to}


def _normal(row: Row) -> tuple[str, Step, str]:
    """The name, step and unit of a row: a price per GiB and hour per month, a class of disks by its size."""
    sku, unit, price = row["sku"], row["unit"], row["price"]
    step = (row["tier_from"], row["tier_to"], price)
    if unit == "gib_hour":
        month = f"{(Decimal(price) * HOURS_PER_MONTH).normalize():f}"
        return f"{sku}, {price} per GiB and hour x {HOURS_PER_MONTH} h", ("", "", month), "gib_month"
    if "each direction" in sku:
        both = f"{Decimal(price) * 2:f}"
        return f"{sku}: both ends are billed", (*step[:2], both), unit
    size = re.search(r"\((\d+) GiB\)$", sku)
    if unit == "disk_month" and size:
        return sku, ("", size[1], price), unit
    return sku, step, unit


def _fallback(sku: str) -> str:
    return next((word for word in FALLBACKS if word in sku), "")


def _document(chosen: Iterable[StatedSteps], sources: Iterable[Row]) -> bytes:
    """The file: lists that several regions share are written once."""
    origins: dict[tuple[str, str], int] = {}
    numbers: dict[str, int] = {}
    places: dict[str, list[int]] = defaultdict(list)
    for each in chosen:
        cloud, region, kind, _, _ = each.key
        written = json.dumps(_list(each, origins), ensure_ascii=False, separators=(",", ":"))
        places[f"{cloud} {region} {kind}"].append(numbers.setdefault(written, len(numbers)))
    used = {source for _, source in origins}
    document = {
        "places": places,
        "lists": [json.loads(written) for written in numbers],
        "origins": list(origins),
        "sources": [
            {name: value for name, value in row.items() if name != "standing"}
            for row in sources
            if row["id"] in used
        ],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _list(each: StatedSteps, origins: dict[tuple[str, str], int]) -> dict[str, Any]:
    def origin(told: StatedSteps) -> int:
        return origins.setdefault((told.as_of, told.source), len(origins))

    ordered = sorted(
        zip(each.sku, each.steps, strict=True), key=lambda pair: Decimal(pair[1][1] or "Infinity")
    )
    steps: list[list[Any]] = []
    lower = ""
    for sku, step in ordered:
        begin = lower if each.unit == "disk_month" else step[0]
        lower = step[1]
        steps.append([sku, begin, step[1], step[2], *_doubt(each, step, origin)])
    return {
        "unit": each.unit,
        "currency": each.currency,
        "origin": origin(each),
        "to": each.key[3],
        "terms": each.key[4],
        "fallback": each.fallback,
        "steps": steps,
    }


def _doubt(each: StatedSteps, step: Step, origin: Callable[[StatedSteps], int]) -> list[Any]:
    """What another source states for a step, if it disagrees: amount, currency and origin."""
    other = each.others.get(step)
    if other is None:
        return []
    told = next(told for told in other.steps if _disagree(each, step, other, told))
    return [told[2], other.currency, origin(other)]


def _read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
