"""One spec, three clouds: the cheapest that the data knows is what is launched, and it comes down again."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path

import pytest

import gpucloud_pricing
from gpucloud_pricing.gpu_models import family
from tests.shell import Shell

DATA = Path(gpucloud_pricing.__file__).parent / "data"
HIDDEN = {"retired", "confidential"}
NO_FLAGS = {"variant", "current"}
OTHER_PARTITIONS = ("us-gov-", "cn-")
ELSEWHERE = ("-wl", "-wlz", "lax", "dfw", "bos", "atl", "chi", "hou", "den", "msp", "mia", "phx", "las")
CLOUDS = ("aws", "azure", "alibaba")
SPECS = (("A100:8", "A100", 8), ("V100:1", "V100", 1), ("T4", "T4", 1))


@cache
def _read(table: str) -> list[dict[str, str]]:
    with (DATA / f"{table}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@dataclass(frozen=True, slots=True)
class Wanted:
    """One launch: what is asked for, and where."""

    gpu: str
    model: str
    count: int
    cloud: str | None
    purchase: str

    @property
    def flags(self) -> tuple[str, ...]:
        """The command line's."""
        where = ("--cloud", self.cloud) if self.cloud else ()
        return ("--gpu", self.gpu, f"--{self.purchase.replace('_', '-')}", *where)


def cheapest(wanted: Wanted) -> tuple[bool, Decimal] | None:
    """Whether the best offer is flagged, and its price in USD: read row by row, without any index.

    Age is no flag: launch asks for today's price. ``None`` where nobody offers it.
    """
    rates = sorted((row["as_of"], Decimal(row["rate"])) for row in _read("fx_reference"))
    _, yuan = rates[-1]
    types = {
        (row["provider"], row["instance_type"])
        for row in _read("instance_types")
        if family(row["gpu_model"], Decimal(row["gpu_memory_gib_per_gpu"])) == wanted.model
        and Decimal(row["gpu_count"]) == wanted.count
        and row["arch"] == "x86_64"
    }
    notes: dict[tuple[str, str], set[str]] = {}
    for row in _read("instance_notes"):
        notes.setdefault((row["provider"], row["instance_type"]), set()).add(row["status"])
    hidden = HIDDEN | ({"no_public_on_demand"} if wanted.purchase == "on_demand" else set())
    found: list[tuple[bool, Decimal]] = []
    for row in _read("offers"):
        key = (row["provider"], row["instance_type"])
        if key not in types or row["purchase"] != wanted.purchase:
            continue
        if wanted.cloud not in {None, row["provider"]} or notes.get(key, set()) & hidden:
            continue
        if row["provider"] == "aws" and row["region"].startswith(OTHER_PARTITIONS):
            continue
        if row["provider"] == "aws" and row["zone"] and any(part in row["zone"] for part in ELSEWHERE):
            continue
        price = Decimal(row["price_per_hour"])
        if price <= 0:
            continue
        usd = price / yuan if row["currency"] == "CNY" else price
        found.append((bool(notes.get(key, set()) - hidden - NO_FLAGS), usd))
    return min(found, default=None)


def launches() -> list[Wanted]:
    """Every combination that the data has an offer for; one GPU also in no cloud by name."""
    wishes = [
        *product(SPECS, CLOUDS, ("on_demand", "spot")),
        (SPECS[-1], None, "on_demand"),
        (SPECS[-1], None, "spot"),
    ]
    wanted = (Wanted(*spec, cloud, purchase) for spec, cloud, purchase in wishes)
    return [each for each in wanted if cheapest(each) is not None]


def name_of(wanted: Wanted) -> str:
    return f"{wanted.gpu}-{wanted.cloud or 'anywhere'}-{wanted.purchase}"


@pytest.mark.parametrize("wanted", launches(), ids=name_of)
def test_the_cheapest_is_launched_and_comes_down_to_nothing(cli: Shell, wanted: Wanted) -> None:
    best = cheapest(wanted)
    assert best is not None
    box = cli.launch("--name", "x", *wanted.flags)
    assert (box["state"], box["gpu"]["model"], box["purchase"]) == ("ready", wanted.model, wanted.purchase)
    assert box["cloud"] == (wanted.cloud or box["cloud"])
    bought = cli("plan", "--json", *wanted.flags).json["attempts"][0]
    assert abs(Decimal(bought["price_usd"]["amount"]) - best[1]) < Decimal("0.0001")
    assert (bought["cloud"], bought["region"], bought["instance_type"]) == (
        box["cloud"],
        box["region"],
        box["instance_type"],
    )
    told = cli("exec", "x", "--", "nvidia-smi", "-L")
    assert (told.code, told.out.count(f"{wanted.model}")) == (0, wanted.count), told.err
    [rented] = cli.billed()
    assert (rented["box"], rented["cloud"]) == (box["id"], box["cloud"])
    assert cli("down", "x", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_when_one_cloud_is_sold_out_the_next_cheapest_cloud_has_it(cli: Shell) -> None:
    cli.sandbox.stock(cloud="aws", count=0)
    ran = cli("launch", "--gpu", "T4", "--yes", "--json")
    attempts = cli("plan", "--gpu", "T4", "--json").json["attempts"]
    elsewhere = next(attempt for attempt in attempts if attempt["cloud"] != "aws")
    assert (ran.box["cloud"], ran.box["region"]) == (elsewhere["cloud"], elsewhere["region"])
    assert {entry["cloud"] for entry in cli.sandbox.status()["billing"]} == {ran.box["cloud"]}
    assert cli("down", "--all", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []
    assert cli("list", "--live", "--json").json["strangers"] == []
