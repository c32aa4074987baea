"""Refreshed prices: what looks wrong is not proposed, and what is merged reaches installed programs."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud_pricing import Price
from gpucloud_pricing.snapshot import AS_OF, OWN
from release.prices import OFFERS, Row, describe, objections, taken
from release.prices_wheel import build_wheel

TODAY = date(2026, 11, 26)
PLACE = ("azure", "eastus", "Standard_NC4as_T4_v3")


def shipped() -> list[Row]:
    with OFFERS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def price(amount: str, **changes: object) -> Price:
    cloud, region, kind = PLACE
    plain = Price(
        cloud=cloud,
        region=region,
        zone=None,
        instance_type=kind,
        purchase="on_demand",
        amount=Decimal(amount),
        currency="USD",
        as_of=TODAY,
        source="azure-retail-prices",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def old_amount() -> Decimal:
    (row,) = (
        r
        for r in shipped()
        if (r["provider"], r["region"], r["instance_type"]) == PLACE and r["purchase"] == "on_demand"
    )
    return Decimal(row["price_per_hour"])


def test_a_newer_price_replaces_the_older_one_and_the_pull_request_shows_it() -> None:
    old = shipped()
    new = taken(old, [price(f"{old_amount() * 2:f}")])
    assert not list(objections(old, new, TODAY))
    assert [row for row in new if row["as_of"] == "2026-11-26"] == [row for row in new if row not in old]
    assert "| azure | on_demand |" in describe(old, new)
    assert f"| azure eastus {PLACE[2]} on_demand | {old_amount()} |" in describe(old, new)
    assert "+100.0 %" in describe(old, new)


def test_a_night_on_which_nothing_moved_proposes_no_table() -> None:
    old = shipped()
    assert taken(old, []) == old
    assert not describe(old, taken(old, [price(str(old_amount()))]))


def test_ways_of_paying_that_a_row_cannot_tell_are_left_out() -> None:
    old = shipped()
    others = [price("0.1", purchase="savings_plan_1y"), price("0.1", terms="all upfront")]
    assert taken(old, others) == old


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: price("0"), "the price is 0"),
        (lambda: price(f"{old_amount() * 3:f}"), "the price is 3.00 times the last one"),
        (lambda: price(f"{old_amount() / 4:f}"), "the price is 0.25 times the last one"),
        (lambda: price(str(old_amount()), as_of=date(2026, 11, 27)), "is in the future"),
        (lambda: price(str(old_amount()), as_of=date(2020, 1, 1)), "is before that of the last price"),
    ],
)
def test_a_price_that_looks_wrong_stops_all(wrong: object, reason: str) -> None:
    old = shipped()
    new = taken(old, [wrong()])  # type: ignore[operator]
    assert [objection for objection in objections(old, new, TODAY) if reason in objection]


def test_a_cloud_that_has_lost_more_than_a_twentieth_of_its_rows_or_a_date_stops_all() -> None:
    old = shipped()
    azure = [row for row in old if row["provider"] == "azure"]
    lost = [row for row in old if row not in azure[: len(azure) // 19]]
    assert any("azure: " in objection for objection in objections(old, lost, TODAY))
    undated = [{**old[0], "as_of": ""}, *old[1:]]
    assert any("the date is missing" in objection for objection in objections(old, undated, TODAY))


@pytest.mark.parametrize(("day", "used"), [("2999-01-01", True), ("2000-01-01", False)])
def test_a_program_uses_installed_prices_that_are_newer_than_its_own(
    day: str, used: bool, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    shutil.copyfile(OWN / "tariffs.json", data / "tariffs.json")
    document = json.loads((OWN / "snapshot.json").read_text())
    (kind,) = (each for each in document["types"] if each["name"] == "p4d.24xlarge")
    kind["prices"] = [[*row[:3], "0.99", *row[4:]] for row in kind["prices"]]
    (data / "snapshot.json").write_text(json.dumps(document))
    (data / AS_OF).write_text(day)
    wheel = build_wheel(data, tmp_path / "out", 1_700_000_000)
    assert wheel.name == f"gpucloud_prices-{day.replace('-', '.').replace('.0', '.')}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path[:0] = [{str(OWN.parent)!r}, {str(tmp_path / 'site')!r}];"
        "from gpucloud_pricing import *; from datetime import date;"
        "found = Market.load().search(Demand(gpus=parse_requirements('A100:8')), date(2026, 11, 20), 3);"
        "print({str(each.quote.amount) for each in found} == {'0.99'})"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert answer.stdout.strip() == str(used), answer.stderr
