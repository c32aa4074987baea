"""Builds the price snapshot that ships with the package from a folder of CSV files.

    python pricing/build_snapshot.py DATA_DIR

copies the CSV files into the package (they are the product's own source) and writes ``snapshot.json``,
``tariffs.json`` and ``as_of.txt`` beside them. The same files give the same bytes. Without DATA_DIR it
builds from the package's own copies.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from build_tariffs import build_tariffs
from gpucloud_pricing.gpu_models import family
from gpucloud_pricing.purchases import SOLD
from gpucloud_pricing.snapshot import AS_OF, SNAPSHOT, TARIFFS

DATA = SNAPSHOT.parent / "data"
TABLES = (
    "alibaba_subscription_monthly",
    "fx_reference",
    "instance_notes",
    "instance_types",
    "offers",
    "regions",
    "sources",
    "spot_interruption",
    "zone_offerings",
)
TARIFF_TABLES = ("tariff_sources", "tariffs")
AWS_PARTITIONS = ("us-gov-", "cn-")
"""How the regions of AWS's other partitions begin. Source: botocore's endpoints.json."""
AWS_OPT_IN_ZONES = "{region}-|[a-z]+[0-9]+-[a-z]+[0-9]+-(?=az[0-9]+$)"
"""How Local and Wavelength Zones begin: they are priced by group, named after their region
(``us-west-2-lax-1``, ``us-east-1-wl1``), or carry a place in their AZ id (``usw2-lax1-az1``; ordinary ones
are ``usw2-az1``). Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide, "Regions and Zones"."""

Row = dict[str, str]
Key = tuple[str, str]


class Numbered:
    """Gives each new value the next number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        """The number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))


def build(data: Path) -> bytes:
    """The snapshot of the CSV files in a folder."""
    tables = {name: _read(data / f"{name}.csv") for name in TABLES}
    word, origin = Numbered(), Numbered()
    notes, prices, zones, bands = _by_type(tables, word, origin)
    types = [
        {
            "cloud": row["provider"],
            "name": row["instance_type"],
            "hardware": _hardware(row),
            "notes": notes[_key(row)],
            "prices": prices[_key(row)],
            "zones": sorted(zones[_key(row)].items()),
            "interruptions": bands[_key(row)],
        }
        for row in tables["instance_types"]
    ]
    zone_origins = {
        row["provider"]: origin((row["as_of"], row["source"])) for row in tables["zone_offerings"]
    }
    document = {
        "types": types,
        "bounds": _bounds(tables),
        "regions": [_region(row) for row in tables["regions"]],
        "zone_origins": zone_origins,
        "rates": [list(row.values()) for row in _newest_rates(tables["fx_reference"])],
        "sources": [list(row.values()) for row in tables["sources"]],
        "strings": list(word.numbers),
        "origins": list(origin.numbers),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def newest_day(data: Path) -> str:
    """The day of the newest price."""
    return max(row["as_of"] for row in _read(data / "offers.csv"))


def _by_type(
    tables: dict[str, list[Row]], word: Numbered, origin: Numbered
) -> tuple[dict[Key, Any], dict[Key, Any], dict[Key, Any], dict[Key, Any]]:
    notes: dict[Key, list[Any]] = defaultdict(list)
    prices: dict[Key, list[Any]] = defaultdict(list)
    zones: dict[Key, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    bands: dict[Key, list[Any]] = defaultdict(list)
    for row in tables["instance_notes"]:
        notes[_key(row)].append([row["status"], row["effective"], row["note"], row["source"]])
    for row in _all_prices(tables):
        if row["purchase"] not in SOLD:
            where = " ".join((*_key(row), row["region"]))
            raise ValueError(f"{where}: {row['purchase']!r} is no way of paying; known: {', '.join(SOLD)}")
        prices[_key(row)].append(
            [
                word(row["purchase"]),
                word(row["region"]),
                word(row["zone"]) if row["zone"] else -1,
                row["price_per_hour"],
                word(row["currency"]),
                origin((row["as_of"], row["source"])),
                *([row["price_per_month"]] if "price_per_month" in row else []),
            ]
        )
    for row in tables["zone_offerings"]:
        zones[_key(row)][word(row["region"])].append(word(row["zone"]))
    for row in tables["spot_interruption"]:
        percents = [
            int(row[name]) for name in ("interruption_rate_low", "interruption_rate_high", "savings_percent")
        ]
        bands[_key(row)].append([word(row["region"]), *percents, origin((row["as_of"], row["source"]))])
    known = {_key(row) for row in tables["instance_types"]}
    if strange := (notes.keys() | prices.keys() | zones.keys() | bands.keys()) - known:
        raise ValueError(f"types without hardware: {sorted(strange)}")
    return notes, prices, zones, bands


def _all_prices(tables: dict[str, list[Row]]) -> Iterable[Row]:
    yield from tables["offers"]
    for row in tables["alibaba_subscription_monthly"]:
        per_hour = row["price_per_hour_730h"]
        yield {**row, "zone": "", "purchase": "subscription_1m", "price_per_hour": per_hour}


def _newest_rates(rows: Iterable[Row]) -> list[Row]:
    """The newest exchange rate of each pair of currencies."""
    return list({(row["base"], row["quote"]): row for row in sorted(rows, key=lambda r: r["as_of"])}.values())


def _bounds(tables: dict[str, list[Row]]) -> dict[str, list[str]]:
    """The lowest and the highest price per hour and GPU of each model, in USD, however it is paid."""
    newest = _newest_rates(tables["fx_reference"])
    rates = {row["quote"]: Decimal(row["rate"]) for row in newest if row["base"] == "USD"}
    hardware = {_key(row): _hardware(row) for row in tables["instance_types"]}
    amounts: dict[str, list[Decimal]] = defaultdict(list)
    for row in _all_prices(tables):
        model, count, *_ = hardware[_key(row)]
        usd = Decimal(row["price_per_hour"]) / rates.get(row["currency"], Decimal(1))
        amounts[model].append(round(usd / Decimal(count), 4))
    return {model: [str(min(found)), str(max(found))] for model, found in sorted(amounts.items())}


def _hardware(row: Row) -> list[Any]:
    memory = row["gpu_memory_gib_per_gpu"]
    return [
        family(row["gpu_model"], Decimal(memory)),
        row["gpu_count"],
        memory,
        int(row["vcpus"]),
        row["memory_gib"],
        row["gpu_interconnect"],
        row["rdma"],
        row["network_gbps"],
        row["local_ssd_gib"],
        row["arch"],
        row["source"],
    ]


def _region(row: Row) -> list[Any]:
    geos = [row["geo"].lower()] + (["us"] if re.search(r"\bUS\b", row["display_name"]) else [])
    aws = row["provider"] == "aws"
    partition = next((head for head in AWS_PARTITIONS if aws and row["region"].startswith(head)), "")
    opt_in = AWS_OPT_IN_ZONES.format(region=row["region"]) if aws else ""
    zones = row["zones"].split(";") if row["zones"] else []
    return [row["provider"], row["region"], row["display_name"], geos, partition, opt_in, zones]


def _key(row: Row) -> Key:
    return row["provider"], row["instance_type"]


def _read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(arguments: list[str]) -> None:
    """Copies the CSV files of a folder, if one is given, and writes the snapshot and the tariffs."""
    if arguments:
        for name in TABLES + TARIFF_TABLES:
            shutil.copyfile(Path(arguments[0]) / f"{name}.csv", DATA / f"{name}.csv")
    SNAPSHOT.write_bytes(build(DATA))
    TARIFFS.write_bytes(build_tariffs(DATA))
    SNAPSHOT.with_name(AS_OF).write_text(newest_day(DATA) + "\n", encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
