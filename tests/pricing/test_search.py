"""The market's search against a plain reading of the CSV files by the rules of choosing."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import gpucloud_pricing
from gpucloud_pricing import (
    PURCHASES,
    BadPlaceError,
    Demand,
    InstanceType,
    Market,
    Note,
    Price,
    Rate,
    Region,
    TariffTable,
    parse_requirements,
)
from gpucloud_pricing.gpus import format_count
from tests.builders import a_price, an_instance_type

TODAY = date(2026, 11, 20)
DATA = Path(gpucloud_pricing.__file__).parent / "data"
CNY_PER_USD = Decimal("6.7046")

Row = dict[str, str]
Key = tuple[str, str]
Answer = tuple[str, str, str, str, Decimal] | None


def rows(name: str) -> list[Row]:
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def market() -> Market:
    return Market.load()


@cache
def _tables() -> tuple[dict[Key, Row], dict[Key, set[str]], dict[tuple[str, str, str], list[str]], list[Row]]:
    types = {(r["provider"], r["instance_type"]): r for r in rows("instance_types")}
    notes: dict[Key, set[str]] = defaultdict(set)
    for r in rows("instance_notes"):
        if not r["effective"] or r["effective"] <= TODAY.isoformat():
            notes[r["provider"], r["instance_type"]].add(r["status"])
    zones: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for r in rows("zone_offerings"):
        zones[r["provider"], r["region"], r["instance_type"]].append(r["zone"])
    prices = rows("offers") + [
        {**r, "zone": "", "purchase": "subscription_1m", "price_per_hour": r["price_per_hour_730h"]}
        for r in rows("alibaba_subscription_monthly")
    ]
    return types, notes, zones, prices


@cache
def _spot_and_on_demand() -> tuple[dict[tuple[str, ...], list[Decimal]], dict[tuple[str, ...], Decimal]]:
    """The spot prices of each region and type, and the on-demand price; each in its listed currency."""
    spot: dict[tuple[str, ...], list[Decimal]] = defaultdict(list)
    listed: dict[tuple[str, ...], Decimal] = {}
    for row in rows("offers"):
        key = (row["provider"], row["region"], row["instance_type"], row["currency"])
        if row["purchase"] == "spot":
            spot[key].append(Decimal(row["price_per_hour"]))
        elif row["purchase"] == "on_demand" and not row["zone"]:
            listed[key] = Decimal(row["price_per_hour"])
    return spot, listed


def is_out_of_line(row: Row) -> bool:
    """Whether a spot row is under half of the middle of its region's, or above the price on demand."""
    spot, listed = _spot_and_on_demand()
    key = (row["provider"], row["region"], row["instance_type"], row["currency"])
    ordered, price = sorted(spot[key]), Decimal(row["price_per_hour"])
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return price * 2 < middle or (key in listed and price > listed[key] * Decimal("1.01"))


def brute_force(model: str, memory: str | None, count: str, arch: str, purchase: str) -> Answer:
    """The first offer by a reading of the CSV files from top to bottom, with nothing but the rules."""
    types, notes, zones, prices = _tables()
    found = []
    for row in prices:
        kind = types[row["provider"], row["instance_type"]]
        status = notes[row["provider"], row["instance_type"]]
        if kind["gpu_model"].split("-80GB")[0].split("-32GB")[0] != model or kind["gpu_count"] != count:
            continue
        if memory is not None and kind["gpu_memory_gib_per_gpu"] != memory:
            continue
        if kind["arch"] != arch or row["purchase"] != purchase:
            continue
        if status & {"retired", "confidential"}:
            continue
        if "no_public_on_demand" in status and purchase == "on_demand":
            continue
        if row["provider"] == "aws":
            if row["region"].startswith(("us-gov-", "cn-")):
                continue
            if row["zone"] and not re.fullmatch(r"[a-z]+\d+-az\d+", row["zone"]):
                continue
        usd = Decimal(row["price_per_hour"]) / (CNY_PER_USD if row["currency"] == "CNY" else 1)
        quoted = date.fromisoformat(row["as_of"])
        flagged = bool(status & {"no_new_capacity", "not_in_api_dump", "announced_size", "needs_grid"})
        stale = TODAY - quoted > timedelta(days=30 if purchase == "spot" else 3 * 365)
        place = row["provider"], row["region"], row["instance_type"]
        for zone in [row["zone"]] if row["zone"] else zones[place] or [""]:
            found.append(
                (
                    2 if purchase == "spot" and is_out_of_line(row) else flagged or stale,
                    usd,
                    -quoted.toordinal(),
                    int(kind["vcpus"]),
                    row["provider"],
                    row["region"],
                    zone,
                    row["instance_type"],
                    Decimal(row["price_per_hour"]),
                )
            )
    if not found:
        return None
    *_, provider, region, zone, name, price = min(found)
    return provider, region, zone, name, price


def first(demand: Demand, in_market: Market | None = None) -> Answer:
    offers = (in_market or market()).search(demand, TODAY, limit=1)
    if not offers or (quote := offers[0].quote) is None:
        return None
    best = offers[0]
    return best.cloud, best.region, best.zone or "", best.instance_type, quote.amount


def demands() -> list[tuple[str, str | None, str, str]]:
    models = {
        (
            r["gpu_model"].split("-80GB")[0].split("-32GB")[0],
            r["gpu_memory_gib_per_gpu"],
            r["gpu_count"],
            r["arch"],
        )
        for r in rows("instance_types")
    }
    return sorted({(m, memory, c, a) for m, size, c, a in models for memory in (None, size)}, key=str)


@pytest.mark.parametrize("purchase", PURCHASES)
def test_the_first_offer_for_every_gpu_and_count_is_what_a_plain_reading_gives(purchase: str) -> None:
    for model, memory, count, arch in demands():
        text = f"{model}{f'-{memory}GB' if memory else ''}:{format_count(Decimal(count))}"
        demand = Demand(gpus=parse_requirements(text), arch=arch, purchases=(purchase,))
        assert first(demand) == brute_force(model, memory, count, arch, purchase), text


def test_the_plain_reading_covers_the_data() -> None:
    answers = [brute_force(m, size, c, a, p) for m, size, c, a in demands() for p in PURCHASES]
    assert len(demands()) > 100
    assert sum(answer is not None for answer in answers) > 200


def kind(name: str = "x1", **fields: Any) -> InstanceType:
    return an_instance_type(name=name, **fields)


def price(name: str = "x1", amount: str = "1", **fields: Any) -> Price:
    return a_price(amount, instance_type=name, **fields)


def names(m: Market, demand: Demand | None = None, **options: Any) -> list[str]:
    return [offer.instance_type for offer in m.search(demand or Demand(), TODAY, **options)]


def test_a_planted_cheaper_price_changes_the_answer() -> None:
    real = market()
    before = first(Demand(gpus=parse_requirements("A100:8")))
    planted = price("Standard_ND96asr_v4", "0.01", cloud="azure", region="eastus")
    changed = Market.build(
        types=real.types.values(),
        offers=[*real.prices(), planted],
        regions=real.regions.values(),
        rates=real.rates,
    )
    after = first(Demand(gpus=parse_requirements("A100:8")), changed)
    assert after == ("azure", "eastus", "", "Standard_ND96asr_v4", Decimal("0.01"))
    assert before != after


def test_unflagged_comes_before_flagged_however_cheap() -> None:
    note = Note(status="no_new_capacity", effective=None, note="full", source="test")
    m = Market.build(
        types=[kind("old", notes=(note,)), kind("new")], offers=[price("old", "1"), price("new", "9")]
    )
    assert names(m) == ["new", "old"]
    assert m.search(Demand(), TODAY)[1].flags == ("no_new_capacity",)


def test_ties_are_broken_by_freshness_then_vcpus_then_name() -> None:
    m = Market.build(
        types=[kind("b"), kind("a"), kind("small", vcpus=2), kind("fresh", vcpus=64)],
        offers=[price("b"), price("a"), price("small"), price("fresh", as_of=date(2026, 11, 2))],
    )
    assert names(m) == ["fresh", "small", "a", "b"]


def test_a_price_in_yuan_is_ranked_at_the_reference_rate_and_kept_in_yuan() -> None:
    rate = Rate(base="USD", quote="CNY", rate=Decimal(7), as_of=TODAY, source="test")
    m = Market.build(
        types=[kind("dollar"), kind("yuan", cloud="alibaba")],
        offers=[price("dollar", "1.00"), price("yuan", "6.93", cloud="alibaba", currency="CNY")],
        rates=[rate],
    )
    best = m.search(Demand(), TODAY)[0]
    assert best.instance_type == "yuan"
    assert best.document()["price"] == {"amount": "6.93", "currency": "CNY"}
    assert best.document()["price_usd"] == {"amount": "0.99", "currency": "USD"}


def test_an_unknown_price_is_shown_last_and_meets_no_price_limit() -> None:
    m = Market.build(
        types=[kind("known"), kind("unknown")],
        offers=[price("known", "100")],
        zones={("aws", "us-east-1", "unknown"): ["use1-az1"]},
        regions=[Region(cloud="aws", name="us-east-1")],
    )
    assert names(m) == ["known", "unknown"]
    last = m.search(Demand(), TODAY)[-1]
    assert last.price is None
    assert "price" in last.document()["unknown"]
    assert names(m, Demand(max_price_usd=Decimal(1000))) == ["known"]


def test_a_regional_price_is_spread_over_the_zones_that_offer_the_type_and_yields_to_their_own() -> None:
    m = Market.build(
        types=[kind()],
        offers=[price(), price(amount="5", zone="use1-az3")],
        zones={("aws", "us-east-1", "x1"): ["use1-az1", "use1-az2", "use1-az3"]},
    )
    found = [(o.zone, o.price_usd) for o in m.search(Demand(), TODAY)]
    assert found == [("use1-az1", Decimal(1)), ("use1-az2", Decimal(1)), ("use1-az3", Decimal(5))]


def test_other_partitions_are_left_out_until_a_region_names_them() -> None:
    def regions(*patterns: str) -> set[str]:
        return {
            o.region for o in market().search(Demand(gpus=parse_requirements("T4"), regions=patterns), TODAY)
        }

    assert not {r for r in regions() if r.startswith("us-gov-")}
    assert not {r for r in regions("us-*") if r.startswith("us-gov-")}
    assert not {r for r in regions("us") if r.startswith("us-gov-")}
    assert regions("us-gov-west-1") == {"us-gov-west-1"}
    assert regions("us-gov-*") == {"us-gov-west-1", "us-gov-east-1"}
    chinese = market().search(Demand(gpus=parse_requirements("T4"), regions=("cn",)), TODAY)
    assert {o.cloud for o in chinese} == {"alibaba"}
    assert regions("cn-northwest-1") == {"cn-northwest-1"}


def test_local_zones_are_left_out_until_a_zone_or_region_names_them() -> None:
    requirement = parse_requirements("T4")
    assert "us-west-2-lax-1" not in {o.zone for o in market().search(Demand(gpus=requirement), TODAY)}
    for demand in (
        Demand(gpus=requirement, zones=("us-west-2-lax-1",)),
        Demand(gpus=requirement, zones=("us-west-2-*",)),
        Demand(gpus=requirement, regions=("us-west-2-lax-1",)),
    ):
        assert "us-west-2-lax-1" in {o.zone for o in market().search(demand, TODAY)}
    spot = Demand(gpus=parse_requirements("T4"), purchases=("spot",), zones=("usw2-*",))
    assert "usw2-lax1-az1" not in {o.zone for o in market().search(spot, TODAY)}


def test_another_packages_cloud_says_itself_which_zones_are_left_out() -> None:
    m = Market.build(
        types=[kind()],
        offers=[price(zone="metro-1"), price(amount="2", zone="edge-1")],
        regions=[Region(cloud="aws", name="us-east-1", opt_in_zones="edge-")],
    )
    assert [o.zone for o in m.search(Demand(), TODAY)] == ["metro-1"]
    assert [o.zone for o in m.search(Demand(zones=("edge-*",)), TODAY)] == ["edge-1"]


def test_geo_groups_tell_the_united_states_from_north_america() -> None:
    def regions(*patterns: str) -> set[str]:
        return {
            o.region for o in market().search(Demand(gpus=parse_requirements("T4"), regions=patterns), TODAY)
        }

    assert {"us-east-1", "eastus"} <= regions("us")
    assert "ca-central-1" not in regions("us")
    assert "ca-central-1" in regions("na")
    assert "eu-west-1" not in regions("eu", "!eu-west-*")
    assert "eu-central-1" in regions("eu", "!eu-west-*")


def test_retired_and_confidential_types_are_hidden_until_asked_for() -> None:
    requirement = parse_requirements("H100-94GB:1")
    shown = {o.instance_type for o in market().search(Demand(gpus=requirement), TODAY)}
    asked = market().search(Demand(gpus=requirement, include_hidden=True), TODAY)
    assert "Standard_NCC40ads_H100_v5" not in shown
    assert next(o for o in asked if o.instance_type == "Standard_NCC40ads_H100_v5").flags == ("confidential",)


def test_a_type_is_retired_from_its_date_on() -> None:
    note = Note(status="retired", effective=date(2026, 11, 21), note="gone", source="test")
    m = Market.build(types=[kind(notes=(note,))], offers=[price()])
    assert len(m.search(Demand(), TODAY)) == 1
    assert m.search(Demand(), TODAY + timedelta(days=1)) == []


def test_spot_is_stale_after_thirty_days_and_a_list_price_after_three_years() -> None:
    """Flagged, still listed, and after what is not: the prices are equal."""
    m = Market.build(
        types=[kind()],
        offers=[
            price(as_of=TODAY - timedelta(days=30), purchase="spot", region="r30"),
            price(as_of=TODAY - timedelta(days=31), purchase="spot", region="r31"),
            price(as_of=TODAY - timedelta(days=1095)),
            price(as_of=TODAY - timedelta(days=1096), purchase="reserved_1y"),
        ],
    )
    found = [(o.purchase, o.region, o.flags) for o in m.search(Demand(purchases=("spot",)), TODAY)]
    assert found == [("spot", "r30", ()), ("spot", "r31", ("stale",))]
    found = [
        (o.purchase, o.region, o.flags)
        for o in m.search(Demand(purchases=("on_demand", "reserved_1y")), TODAY)
    ]
    assert [(purchase, flags) for purchase, _, flags in found] == [
        ("on_demand", ()),
        ("reserved_1y", ("stale",)),
    ]
    recent = m.search(Demand(purchases=PURCHASES, max_age=timedelta(days=31)), TODAY)
    assert {o.region for o in recent} == {"r30", "r31"}


def spot_market(*, age: int, **zones: str) -> Market:
    """A type with these prices on spot, and at 2 dollars on demand."""
    as_of = TODAY - timedelta(days=age)
    spot = [price(amount=amount, zone=zone, purchase="spot", as_of=as_of) for zone, amount in zones.items()]
    return Market.build(types=[kind()], offers=[*spot, price(amount="2")])


def flagged_zones(m: Market) -> list[tuple[str | None, tuple[str, ...]]]:
    return [(o.zone, o.flags) for o in m.search(Demand(purchases=("spot",)), TODAY)]


def test_a_zone_under_half_of_its_regions_median_is_listed_last() -> None:
    """The median of 0.49, 1, 1 and 1.4 is 1."""
    assert flagged_zones(spot_market(age=3, a="0.49", b="1", c="1", d="1.4")) == [
        ("b", ()),
        ("c", ()),
        ("d", ()),
        ("a", ("implausible", "below_region")),
    ]
    assert flagged_zones(spot_market(age=3, a="0.5", b="1", c="1", d="1.4"))[0] == ("a", ())
    assert flagged_zones(spot_market(age=3, a="0.1"))[0] == ("a", ()), "its own median"


def test_an_old_doubtful_price_comes_after_an_old_one() -> None:
    old = flagged_zones(spot_market(age=31, a="0.4", b="1", c="1"))
    assert old == [
        ("b", ("stale",)),
        ("c", ("stale",)),
        ("a", ("stale", "implausible", "below_region")),
    ]


def test_spot_above_on_demand_is_listed_last() -> None:
    """Up to a hundredth above it is the rounding of a list."""
    assert flagged_zones(spot_market(age=3, a="2.03", b="1.8", c="2.02")) == [
        ("b", ()),
        ("c", ()),
        ("a", ("implausible", "above_on_demand")),
    ]


def test_a_doubtful_price_that_was_asked_for_today_is_not_doubted() -> None:
    assert flagged_zones(spot_market(age=0, a="0.4", b="1", c="2.5")) == [("a", ()), ("b", ()), ("c", ())]


def test_a_price_that_nothing_known_of_its_gpu_comes_near_does_not_win() -> None:
    """Below a fifth of the lowest, above five times the highest; a fifth and five times will do."""
    offers = [price(amount=amount, region=f"r{amount}") for amount in ("0.09", "0.1", "1", "50", "51")]
    made = Market.build(types=[kind()], offers=offers)
    doubting = Market(
        types=made.types,
        regions=made.regions,
        prices=lambda _: offers,
        zones=lambda _: {},
        interruptions=lambda _: {},
        tariffs=TariffTable.of(()),
        rates=(),
        sources={},
        bounds={"T4": (Decimal("0.5"), Decimal(10))},
    )
    found = [(str(o.price_usd), o.flags) for o in doubting.search(Demand(), TODAY)]
    assert found == [
        ("0.1", ()),
        ("1", ()),
        ("50", ()),
        ("0.09", ("implausible",)),
        ("51", ("implausible",)),
    ]


def test_no_list_price_that_ships_is_implausible() -> None:
    assert not [o for o in market().search(Demand(include_hidden=True), TODAY) if "implausible" in o.flags]


def test_the_spot_prices_that_ship_and_are_doubted_are_those_of_a_plain_reading() -> None:
    spot = market().search(Demand(purchases=("spot",), include_hidden=True, regions=("*",)), TODAY)
    doubted = {(o.cloud, o.zone, o.instance_type) for o in spot if "implausible" in o.flags}
    shown = {(o.cloud, o.zone, o.instance_type) for o in spot}
    read = {
        (row["provider"], row["zone"], row["instance_type"])
        for row in rows("offers")
        if row["purchase"] == "spot" and is_out_of_line(row)
    }
    assert doubted == read & shown
    assert len(doubted) > 20


def test_mig_slices_need_a_card_that_has_the_profile() -> None:
    found = market().search(Demand(gpus=parse_requirements("A100/1g.5gb:7")), TODAY)
    assert {(o.gpu_memory_gib, o.gpu_count) for o in found} == {(Decimal(40), Decimal(1))}
    found = market().search(Demand(gpus=parse_requirements("A100/1g.10gb:8"), include_hidden=True), TODAY)
    assert {(o.gpu_memory_gib, o.gpu_count) for o in found} == {(Decimal(80), Decimal(2))}


def test_the_least_of_every_size_is_demanded() -> None:
    demand = Demand(
        gpu_memory_gib=Decimal(40),
        total_gpu_memory_gib=Decimal(320),
        cpus=96,
        memory_gib=Decimal(1000),
        interconnect="nvlink",
        rdma="efa",
    )
    found = market().search(demand, TODAY)
    assert found
    for o in found:
        assert o.gpu_memory_gib >= 40
        assert o.gpu_memory_gib * o.gpu_count >= 320
        assert o.vcpus >= 96
        assert o.memory_gib >= 1000
        assert (o.interconnect, o.rdma) == ("nvswitch", "efa")


def test_any_rdma_is_that_of_every_cloud_and_never_none() -> None:
    found = market().search(Demand(rdma="any", include_hidden=True), TODAY)
    assert {offer.rdma for offer in found} == {"efa", "infiniband", "erdma"}


def test_a_share_of_a_gpu_has_only_its_share_of_the_memory() -> None:
    demand = Demand(gpus=parse_requirements("A10:1/12..1"), gpu_memory_gib=Decimal(12))
    assert min(o.gpu_count for o in market().search(demand, TODAY)) == Decimal("0.5")


def test_without_a_gpu_demand_only_whole_gpus_are_offered() -> None:
    assert all(o.gpu_count >= 1 for o in market().search(Demand(), TODAY))


def test_a_share_is_offered_to_whoever_names_its_type_in_full() -> None:
    def types(*patterns: str) -> set[str]:
        demand = Demand(instance_types=patterns, include_hidden=True)
        return {offer.instance_type for offer in market().search(demand, TODAY)}

    assert types("standard_nv6ads_a10_v5") == {"Standard_NV6ads_A10_v5"}
    assert types("Standard_NV*ads_A10_v5") == {"Standard_NV36ads_A10_v5", "Standard_NV72ads_A10_v5"}


def test_commitments_are_marked_as_to_buy() -> None:
    found = market().search(Demand(gpus=parse_requirements("T4,A100:8"), purchases=PURCHASES), TODAY)
    assert {o.purchase for o in found if o.to_buy} == {"reserved_1y", "reserved_3y", "subscription_1m"}
    assert not {o.purchase for o in found if not o.to_buy} - {"on_demand", "spot"}


def test_limit_gives_the_beginning_of_the_whole_answer() -> None:
    for purchases in (("on_demand",), ("spot",), PURCHASES):
        demand = Demand(gpus=parse_requirements("T4:1..4"), purchases=purchases)
        everything = market().search(demand, TODAY)
        for limit in (0, 1, 7, 20, 10_000):
            assert market().search(demand, TODAY, limit=limit) == everything[:limit]


def test_every_offer_is_either_matched_or_refused_with_a_reason() -> None:
    demand = Demand(gpus=parse_requirements("A100:8"), regions=("eu",), max_price_usd=Decimal(30))
    explanation = market().explain(demand, TODAY)
    total = market().explain(Demand(), TODAY)
    assert list(explanation.matched) == market().search(demand, TODAY)
    assert len(explanation.matched) + len(explanation.refused) == len(total.matched) + len(total.refused)
    assert all(refusal.reasons for refusal in explanation.refused)
    dearer = [r for r in explanation.refused if [x.rule for x in r.reasons] == ["max_price"]]
    relaxed = {r.rule: r for r in explanation.relaxations}
    assert relaxed["max_price"].offers == len(dearer) > 0
    without_limit = Demand(gpus=demand.gpus, regions=demand.regions)
    assert len(market().search(without_limit, TODAY)) == len(explanation.matched) + len(dearer)


def test_every_figure_of_every_price_keeps_its_date_and_a_known_source() -> None:
    prices = list(market().prices())
    assert len(prices) == 4839 + 30
    assert {p.source for p in prices} <= market().sources.keys()
    listed = {(r["provider"], r["region"], r["zone"], r["instance_type"], r["purchase"], r["price_per_hour"],
               r["currency"], r["as_of"], r["source"]) for r in rows("offers")}  # fmt: skip
    kept = {(p.cloud, p.region, p.zone or "", p.instance_type, p.purchase, str(p.amount), p.currency,
             p.as_of.isoformat(), p.source) for p in prices}  # fmt: skip
    assert listed <= kept


def test_the_name_that_a_zone_has_in_an_account_is_told_the_ids_of_its_region() -> None:
    shipped = Market.load()
    with pytest.raises(BadPlaceError) as caught:
        shipped.check(Demand(zones=("us-west-2a",)))
    assert "did you mean" not in str(caught.value)
    assert "usw2-az1, usw2-az2" in caught.value.existing
    with pytest.raises(BadPlaceError, match="did you mean us-west-1"):  # names are what this region has
        shipped.check(Demand(zones=("us-west-1z",)))
