"""Tariffs: which of several prices is shipped, what a quantity costs, and where a price is missing."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

import gpucloud_pricing
from build_tariffs import StatedSteps, choose, price_lists
from gpucloud_pricing import Market, Region, Tariff, TariffTable
from gpucloud_pricing.snapshot import TARIFFS, shipped_tariffs
from gpucloud_pricing.tariffs import (
    TariffCost,
    address_price,
    caveats,
    disk_price,
    egress_cost,
    object_cost,
    snapshot_price,
    transfer_cost,
)

DATA = Path(gpucloud_pricing.__file__).parent / "data"
HAND = Path(__file__).with_name("hand_computed_tariffs.csv").read_text(encoding="utf-8").splitlines()
CASES = list(csv.DictReader(line for line in HAND if not line.startswith("#")))
SHIPPED = shipped_tariffs()
HERE, THERE = ("aws", "r1"), ("aws", "r2")
STANDING = {"old": 2, "new": 2, "page": 1, "quoted": 0}


def rows(table: str) -> list[dict[str, str]]:
    with (DATA / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def a_tariff(kind: str = "egress", amount: str = "0.1", *, day: date | None = None) -> Tariff:
    return Tariff(
        cloud=HERE[0],
        region=HERE[1],
        kind=kind,
        sku="plain",
        unit="gb",
        amount=Decimal(amount),
        currency="USD",
        as_of=day,
        source="test",
    )


def region(name: str, *geos: str, cloud: str = "aws") -> Region:
    return Region(cloud=cloud, name=name, geos=frozenset(geos))


# --- what a quantity costs


def listed(kind: str, steps: str) -> Iterable[Tariff]:
    """The tariffs that a line of the file states."""
    reached = Decimal(0)
    words = iter(steps.split())
    for word in words:
        plain = a_tariff(kind)
        if word == "free":
            yield replace(plain, kind="egress_allowance", amount=Decimal(0), tier_to=Decimal(next(words)))
        elif word == "class":
            size, price = map(Decimal, next(words).split(":"))
            yield replace(plain, unit="disk_month", amount=price, tier_from=reached, tier_to=size)
            reached = size
        else:
            bounds, price_text = word.split(":")
            lower, upper = bounds.split("-")
            end = Decimal(upper) if upper else None
            yield replace(plain, amount=Decimal(price_text), tier_from=Decimal(lower), tier_to=end)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['what']} {c['quantity']} of {c['steps']}")
def test_a_quantity_costs_what_was_computed_by_hand(case: dict[str, str]) -> None:
    kind = {"transfer": "inter_region", "object": "object_storage"}.get(case["what"], case["what"])
    tariffs = [
        replace(each, to="r2" if kind == "inter_region" else "") for each in listed(kind, case["steps"])
    ]
    table, quantity = TariffTable.of(tariffs), Decimal(case["quantity"])
    prices: dict[str, TariffCost | None] = {
        "disk": disk_price(table, HERE, int(quantity)) if kind == "disk" else None,
        "address": address_price(table, HERE),
        "snapshot": snapshot_price(table, HERE),
        "egress": egress_cost(table, HERE, quantity, Decimal(case["months"])),
        "transfer": transfer_cost(table, region("r1"), region("r2"), quantity),
        "object": object_cost(table, HERE, quantity),
    }
    found = prices[case["what"]]
    expected = None if case["expected"] == "unknown" else Decimal(case["expected"])
    assert (found and round(found.amount, 9)) == expected, case["by_hand"]


def test_the_lines_cover_every_rule() -> None:
    assert Counter(case["what"] for case in CASES).keys() == {
        *("disk", "address", "snapshot", "egress", "transfer", "object")
    }
    assert len(CASES) >= 45


def test_the_items_of_a_cost_add_up_to_the_quantity() -> None:
    cost = egress_cost(SHIPPED, ("azure", "eastus"), Decimal(60_000), Decimal(2))
    assert cost is not None
    assert sum(item.quantity for item in cost.items) * cost.times == 60_000
    assert [item.quantity for item in cost.items] == [100, 10_235, 19_665]


def test_a_transfer_costs_what_its_own_destination_then_its_continent_then_the_rest_says() -> None:
    table = TariffTable.of(
        [
            replace(a_tariff("inter_region", price), to=to)
            for price, to in (("0.01", "near"), ("0.02", "continent"), ("0.05", "*"))
        ]
        + [a_tariff("inter_zone", "0.03"), a_tariff("egress", "0.09")]
    )
    origin = region("r1", "eu")
    targets = {
        "0.01": region("near", "eu"),
        "0.02": region("far", "eu"),
        "0.05": region("abroad", "na"),
        "0.03": origin,
        "0.09": region("r1", "eu", cloud="azure"),
    }
    for price, target in targets.items():
        cost = transfer_cost(table, origin, target, Decimal(100))
        assert cost is not None
        assert cost.amount == 100 * Decimal(price), target


# --- which price is shipped


def found(*parts: str, sku: str = "EBS gp3 storage") -> dict[str, str]:
    price, currency, as_of, source = parts
    return {
        "provider": "aws",
        "region": "r1",
        "kind": "disk",
        "sku": sku,
        "unit": "gib_month",
        "tier_from": "",
        "tier_to": "",
        "price": price,
        "currency": currency,
        "as_of": as_of,
        "source": source,
    }


def best_of(*raw: dict[str, str], currency: str = "USD") -> StatedSteps:
    return choose(price_lists(raw, {("aws", "r1"): "EU"}), currency, STANDING)


OLD = found("0.07", "USD", "2022-01-01", "old")
NEW = found("0.08", "USD", "2026-01-01", "new")


def test_the_newest_price_list_wins_and_the_older_one_that_disagrees_is_told() -> None:
    best = best_of(OLD, NEW)
    assert (best.source, best.fallback) == ("new", "")
    [(step, other)] = best.others.items()
    assert (step[2], other.source, other.steps[0][2]) == ("0.08", "old", "0.07")


def test_sources_that_agree_are_no_disagreement() -> None:
    assert not best_of({**OLD, "price": "0.080"}, NEW).others


@pytest.mark.parametrize("doubt", ["derived: a share of another price", "older list", "second-hand table"])
def test_a_last_resort_never_wins_against_an_older_list_but_is_better_than_nothing(doubt: str) -> None:
    resort = {**NEW, "kind": "snapshot", "sku": f"EBS snapshot ({doubt})"}
    plain = {**OLD, "kind": "snapshot", "sku": "EBS snapshot, standard tier"}
    assert best_of(resort, plain).source == "old"
    alone = best_of(resort)
    assert alone.source == "new"
    assert alone.fallback
    assert alone.fallback in doubt


def test_nearer_to_the_vendor_counts_before_the_date_and_what_is_quoted_says_so() -> None:
    page, quoted = found("1", "USD", "2026-05-01", "page"), found("2", "USD", "2026-06-01", "quoted")
    assert best_of(page, quoted, OLD).source == "old"
    assert best_of(page, quoted).source == "page"
    assert best_of(quoted).fallback == "second-hand"


def test_the_list_in_the_currency_of_the_machines_is_used_and_another_currency_is_no_disagreement() -> None:
    yuan = found("0.5", "CNY", "2022-01-01", "old")
    best = best_of(yuan, NEW, currency="CNY")
    assert (best.currency, best.others) == ("CNY", {})


def test_what_no_box_uses_is_not_shipped() -> None:
    others = ("EBS io2 storage", "EBS gp3 provisioned IOPS above 3000")
    assert not price_lists([found("1", "USD", "", "new", sku=sku) for sku in others], {})


def test_every_shipped_price_stands_in_the_data_with_its_source_and_date() -> None:
    """Prices per hour are shipped per month of 730 h, those of each direction for both."""
    read = {
        (r["provider"], r["source"], Decimal(r["price"]) * times): r
        for r in rows("tariffs")
        for times in (1, 2, 730)
    }
    places = {(r["provider"], r["region"]) for r in rows("regions")} | {
        (c, "*") for c in ("aws", "azure", "alibaba")
    }
    kinds = (
        "disk",
        "address",
        "egress",
        "egress_allowance",
        "inter_region",
        "inter_zone",
        "snapshot",
        "object_storage",
    )
    shipped = [t for place in sorted(places) for kind in kinds for t in SHIPPED.at(*place, kind)]
    assert len(shipped) > 2000
    strange = [
        t for t in shipped if (t.cloud, t.source, t.amount) not in read or t.source not in SHIPPED.sources
    ]
    assert not strange
    assert {t.kind for t in shipped} == set(kinds)


@pytest.mark.parametrize(
    ("place", "kind", "amount", "other"),
    [
        (("azure", "israelcentral"), "egress", "0.087", "0.181"),
        (("azure", "uaenorth"), "egress", "0.181", "0.12"),
        (("azure", "brazilsouth"), "inter_region", "0.181", "0.16"),
        (("azure", "eastus"), "object_storage", "0.0208", "0.018"),
        (("azure", "eastus"), "inter_zone", "0.02", "0"),
        (("alibaba", "cn-hangzhou"), "snapshot", "0.12", "0.148"),
        (("alibaba", "ap-southeast-1"), "egress", "0.081", "0.117"),
    ],
)
def test_a_known_disagreement_is_shipped_with_both_sides(
    place: tuple[str, str], kind: str, amount: str, other: str
) -> None:
    """Those of the notes beside the collected data."""
    [row] = [t for t in SHIPPED.at(*place, kind) if t.other and t.amount == Decimal(amount)]
    assert row.other is not None
    assert row.other.amount == Decimal(other)
    assert any(f"{row.other.source}" in text and other in text for text in caveats([row]))


def unknown_parts(table: TariffTable, place: tuple[str, str]) -> list[str]:
    prices = {
        "disk": disk_price(table, place, 100),
        "address": address_price(table, place),
        "egress": egress_cost(table, place, Decimal(100)),
    }
    return [kind for kind, price in prices.items() if price is None]


def test_every_region_with_offers_has_complete_totals_but_those_whose_gaps_are_named() -> None:
    market = Market.load()
    here: dict[tuple[str, str], set[str]] = {}
    for price in market.prices():
        here.setdefault((price.cloud, price.region), set()).add(price.purchase)
    assert len(here) == 105
    assert all("on_demand" in ways for ways in here.values()), "so that the compute is known"
    gaps = {(*place, kind) for place in here for kind in unknown_parts(market.tariffs, place)}
    told = rows("tariff_gaps")
    assert gaps == {(row["provider"], row["region"], row["kind"]) for row in told}
    assert all(row["reason"] for row in told)
    assert len(here) - len({gap[:2] for gap in gaps}) >= 95


# --- the table


def test_a_newer_list_replaces_an_older_one_as_a_whole() -> None:
    old, new = date(2026, 1, 1), date(2026, 2, 1)
    steps = [
        replace(a_tariff(day=old), tier_to=Decimal(100)),
        replace(a_tariff(amount="0.05", day=old), tier_from=Decimal(100)),
        replace(a_tariff("disk"), terms="subscription"),
    ]
    told = [a_tariff(amount="0.2", day=new), a_tariff("disk", "9", day=new)]
    table = TariffTable.of(steps).refreshed(TariffTable.of(told))
    assert [t.amount for t in table.at(*HERE, "egress")] == [Decimal("0.2")]
    assert {t.terms for t in table.at(*HERE, "disk")} == {"", "subscription"}, "each is a list of its own"
    older = TariffTable.of(told).refreshed(TariffTable.of(steps))
    assert [t.amount for t in older.at(*HERE, "egress")] == [Decimal("0.2")]


def test_a_refreshed_market_has_the_newer_tariffs_and_their_sources() -> None:
    told = TariffTable.of([replace(a_tariff("address", "0.006", day=date(2027, 1, 1)), region="us-east-1")])
    market = Market.load().refreshed(lambda _: (), lambda _: {}, told)
    price = address_price(market.tariffs, ("aws", "us-east-1"))
    assert price is not None
    assert price.amount == Decimal("0.006")
    assert address_price(Market.load().tariffs, ("aws", "us-east-1")) != price
    assert "zombiescan-aws" in market.sources


def test_a_tariff_for_everywhere_is_used_where_a_region_has_none() -> None:
    everywhere = replace(a_tariff("address", "0.004"), region="*")
    table = TariffTable.of([everywhere, a_tariff("address", "0.005")])
    prices = [address_price(table, place) for place in (HERE, THERE)]
    assert [price and price.amount for price in prices] == [Decimal("0.005"), Decimal("0.004")]


def test_a_search_does_not_open_the_file_of_tariffs() -> None:
    code = f"""
import sys
from datetime import date
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from gpucloud_pricing import Demand, Market, parse_requirements
market = Market.load()
assert market.search(Demand(gpus=parse_requirements("A100:8")), date(2026, 11, 20), 1)
assert {str(TARIFFS)!r} not in opened
assert market.tariffs.at("aws", "us-east-1", "disk")
assert {str(TARIFFS)!r} in opened
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_search_and_the_tariffs_have_no_source_id_for_two_sources() -> None:
    shared = {row["id"]: row for row in rows("sources")}
    for row in rows("tariff_sources"):
        assert row["id"] not in shared
