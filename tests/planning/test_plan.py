"""The plan: order of attempts, today's prices, saved and compared."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.errors import GpucloudError, PriceError, UsageError
from gpucloud.planning.plan import (
    CHEAPEST,
    MAX_ATTEMPTS,
    Candidate,
    Plan,
    attempts,
    fabric_of,
    into_held,
    rank,
    repriced,
    requote,
    split_dear,
    under,
    worth_quoting,
)
from gpucloud.planning.saved_plan import changes, renewed
from gpucloud.resources import HeldCapacity, Quote
from gpucloud_pricing.purchases import Purchase

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def a_candidate(place: str = "aws/r1/z1", price: str = "1.00", **change: Any) -> Candidate:
    """An offer; ``place`` is cloud/region/zone."""
    cloud, region, zone = place.split("/")
    base = Candidate(
        cloud=cloud,
        region=region,
        zone=zone,
        instance_type="t.large",
        purchase=Purchase.ON_DEMAND,
        gpu_model="T4",
        gpu_count=Decimal(1),
        gpu_memory_gib=Decimal(16),
        vcpus=4,
        memory_gib=Decimal(16),
        interconnect="none",
        arch="x86_64",
        price=Decimal(price),
        currency="USD",
        price_usd=Decimal(price),
        ceiling_usd=Decimal(price),
        as_of=date(2026, 7, 20),
        source="list",
    )
    return replace(base, **change)


def a_quote(place: str, price: str, **change: Any) -> Quote:
    cloud, region, zone = place.split("/")
    base = Quote(
        cloud=cloud,
        region=region,
        zone=zone or None,
        instance_type="t.large",
        purchase=Purchase.ON_DEMAND,
        price_per_hour=Decimal(price),
        currency="USD",
        as_of=NOW,
        source="the cloud",
    )
    return replace(base, **change)


def anything(_model: str, _usd_per_gpu: Decimal) -> bool:
    return True


def usd(amount: Decimal, currency: str) -> Decimal | None:
    return {"USD": amount, "CNY": amount / 7}.get(currency)


def places(candidates: Any) -> list[str]:
    return [f"{c.cloud}/{c.region}/{c.zone}" for c in candidates]


def test_a_dearer_place_is_never_tried_before_a_cheaper_one() -> None:
    """Not even the third zone of a region that looks empty."""
    offers = [a_candidate(f"aws/r1/z{n}") for n in (1, 2, 3)] + [a_candidate("aws/r2/z1", "1.01")]
    assert places(attempts(rank(offers))) == ["aws/r1/z1", "aws/r1/z2", "aws/r1/z3", "aws/r2/z1"]


def test_among_equal_prices_two_zones_of_a_region_are_tried_before_the_next_region() -> None:
    """Two empty zones make a third one unlikely."""
    offers = [a_candidate(f"aws/r{r}/z{z}") for r in (1, 2) for z in (1, 2, 3)]
    assert places(attempts(rank(offers))) == [
        "aws/r1/z1",
        "aws/r1/z2",
        "aws/r2/z1",
        "aws/r2/z2",
        "aws/r1/z3",
        "aws/r2/z3",
    ]


def test_clouds_are_interleaved_by_price() -> None:
    """Whose cloud it is does not matter."""
    offers = [a_candidate("aws/r/z", "2"), a_candidate("azure/r/1", "1"), a_candidate("aws/s/z", "3")]
    assert places(attempts(rank(offers))) == ["azure/r/1", "aws/r/z", "aws/s/z"]


def test_flagged_offers_come_after_unflagged_ones_however_cheap() -> None:
    """A stale or doubtful price does not win."""
    offers = [
        a_candidate("aws/c/z", "0.1", flags=("implausible", "below_region")),
        a_candidate("aws/a/z", "1", flags=("stale",)),
        a_candidate("aws/b/z", "9"),
    ]
    assert places(rank(offers)) == ["aws/b/z", "aws/a/z", "aws/c/z"]


def test_a_doubtful_zone_is_asked_for_first_and_wins_at_the_price_of_today_alone() -> None:
    """Its listed price says that it is worth asking; what is doubted of a quote is doubted after it too."""
    offers = [
        a_candidate("aws/r1/z1", "0.4", flags=("stale", "implausible", "below_region")),
        a_candidate("aws/r2/z1", "1", flags=("stale",)),
    ]
    assert places(worth_quoting(offers)) == ["aws/r1/z1", "aws/r2/z1"]
    bargain = requote(offers, [a_quote("aws/r1/z1", "0.4")], usd=usd, plausible=anything)
    assert [(c.place.split()[1], c.flags) for c in rank(bargain)] == [("r1", ()), ("r2", ("stale",))]
    doubted = requote(offers, [a_quote("aws/r1/z1", "0.4")], usd=usd, plausible=lambda _, __: False)
    assert places(worth_quoting(doubted)) == ["aws/r2/z1", "aws/r1/z1"]


def test_after_the_cheapest_each_further_region_cloud_and_way_of_paying_is_tried_once() -> None:
    offers = [a_candidate(f"aws/r{n:02}/z{zone}") for n in range(15) for zone in (1, 2)]
    offers += [a_candidate(f"azure/r{n:02}/1", f"1.{n:02}") for n in range(1, 4)] * 2
    offers += [a_candidate(f"aws/r{n:02}/z1", "1.5", purchase=Purchase.SPOT) for n in range(60)]
    tried = attempts(rank(offers))
    assert len(tried) == MAX_ATTEMPTS
    assert places(tried[:CHEAPEST]) == [f"aws/r{n:02}/z{zone}" for n in range(10) for zone in (1, 2)]
    assert places(tried[CHEAPEST:29]) == [
        *(f"aws/r{n}/z1" for n in range(10, 15)),
        *(f"azure/r0{n}/1" for n in range(1, 4)),
        "aws/r00/z1",
    ]
    assert {each.purchase for each in tried[28:]} == {Purchase.SPOT}


def test_without_a_limit_nothing_is_tried_that_costs_more_than_twice_the_cheapest_of_its_way() -> None:
    offers = [
        a_candidate("aws/a/z", "1", purchase=Purchase.SPOT),
        a_candidate("aws/b/z", "2", purchase=Purchase.SPOT),
        a_candidate("aws/c/z", "2.01", purchase=Purchase.SPOT),
        a_candidate("aws/a/z", "3"),
        a_candidate("azure/a/1", "6.01"),
    ]
    tried, dear = split_dear(rank(offers))
    assert places(tried) == ["aws/a/z", "aws/b/z", "aws/a/z"]
    assert places(dear) == ["aws/c/z", "azure/a/1"]


def test_todays_price_replaces_the_snapshots_and_its_staleness() -> None:
    """A zonal quote beats a regional one; what was not quoted stays."""
    offers = [a_candidate(f"aws/r1/z{n}", flags=("stale",)) for n in (1, 2)] + [a_candidate("aws/r2/z1")]
    fresh = requote(
        offers, [a_quote("aws/r1/", "1.5"), a_quote("aws/r1/z2", "1.6")], usd=usd, plausible=anything
    )
    assert [(str(c.price), c.quoted_at, c.flags) for c in fresh] == [
        ("1.5", NOW, ()),
        ("1.6", NOW, ()),
        ("1.00", None, ()),
    ]


def test_a_quote_that_cannot_be_is_flagged_and_does_not_win() -> None:
    """A cent for a GPU is a mistake of somebody's, and nothing to plan with."""
    offers = [a_candidate("aws/r1/z1", "2"), a_candidate("aws/r2/z1", "3")]
    quotes = [a_quote("aws/r1/z1", "0.01")]
    fresh = requote(offers, quotes, usd=usd, plausible=lambda _, per_gpu: per_gpu > Decimal("0.1"))
    assert [(c.place.split()[1], c.flags) for c in rank(fresh)] == [("r2", ()), ("r1", ("implausible",))]
    back = requote(fresh, [a_quote("aws/r1/z1", "2")], usd=usd, plausible=anything)
    assert {c.flags for c in back} == {()}


def test_a_quote_in_another_currency_is_compared_in_usd_and_billed_in_its_own() -> None:
    """CNY at the reference rate; a currency without a rate is left out."""
    offer = a_candidate("alibaba/r/z")
    [fresh] = requote([offer], [a_quote("alibaba/r/", "14", currency="CNY")], usd=usd, plausible=anything)
    assert (str(fresh.price), fresh.currency, str(fresh.price_usd)) == ("14", "CNY", "2")
    assert requote([offer], [a_quote("alibaba/r/", "14", currency="XXX")], usd=usd, plausible=anything) == [
        offer
    ]


def test_nothing_above_the_limit_is_planned() -> None:
    """The limit itself is allowed."""
    offers = [a_candidate(price="1.00"), a_candidate("aws/r/y", "1.01")]
    assert places(under(offers, Decimal("1.00"))) == ["aws/r1/z1"]


def test_reserved_means_capacity_that_is_held_and_free_for_all_nodes() -> None:
    """Too little held is as good as none."""
    hold = HeldCapacity(
        cloud="aws",
        region="r1",
        zone="z1",
        instance_type="t.large",
        id="cr-1",
        free=2,
        purchase="reservation",
    )
    [candidate] = into_held([a_candidate(), a_candidate("aws/r1/z2")], [hold], nodes=2)
    assert (candidate.purchase, candidate.reservation, candidate.zone) == (Purchase.RESERVED, "cr-1", "z1")
    assert into_held([a_candidate()], [hold], nodes=3) == []


def test_held_capacity_comes_first_whatever_it_costs() -> None:
    """It is paid for already; what is bought beside it is dearer by its whole price."""
    held = a_candidate("aws/r3/z", "9.00", purchase=Purchase.RESERVED, reservation="cr-1", flags=("stale",))
    offers = [a_candidate(price="1.00"), a_candidate("aws/r2/z", "0.50", purchase=Purchase.SPOT), held]
    assert places(attempts(rank(offers))) == ["aws/r3/z", "aws/r2/z", "aws/r1/z1"]


def test_a_saved_plan_is_the_same_plan() -> None:
    """Through JSON and back."""
    plan = Plan(
        created_at=NOW,
        spec={"gpu": "T4"},
        attempts=(
            a_candidate(flags=("x",), quoted_at=NOW),
            a_candidate("azure/r/", purchase=Purchase.SPOT, ceiling_usd=Decimal("1.25")),
        ),
        left_out={"alibaba": "no"},
    )
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"schema": "gpucloud.plan/v2"},
        {"schema": "gpucloud.plan/v1"},
        {"schema": "gpucloud.plan/v1", "created_at": "x", "spec": {}, "attempts": [{}], "left_out": {}},
    ],
)
def test_what_is_no_plan_is_refused(data: Any) -> None:
    """Nothing foreign comes out of a damaged file."""
    with pytest.raises(UsageError):
        Plan.from_json(data)


SAVED = Plan(
    created_at=NOW,
    spec={"gpu": "T4", "budget": "1"},
    attempts=(
        a_candidate(quoted_at=NOW),
        a_candidate("aws/r2/z", gpu_count=Decimal("0.166667"), ceiling_usd=Decimal("1.02")),
    ),
    left_out={"azure": "no"},
    endings={"aws": "it powers itself off"},
)
EDITS = {
    "created_at": "2026-11-21T12:00:00Z",
    "spec": {"gpu": "T4", "budget": "1000"},
    "left_out": {},
    "endings": {"aws": "never"},
    "remarks": {"aws": ["free"]},
    "attempts": [],
    "digest": "0" * 64,
}


@pytest.mark.parametrize("field", EDITS)
def test_a_plan_that_was_edited_is_refused(field: str) -> None:
    document = json.loads(json.dumps(SAVED.as_json()))
    assert Plan.from_json(document) == SAVED
    assert document[field] != EDITS[field]
    with pytest.raises(UsageError, match="edited"):
        Plan.from_json({**document, field: EDITS[field]})


FIGURES = {
    **dict.fromkeys(("cloud", "region", "zone", "instance_type", "gpu_model", "interconnect"), "other"),
    **dict.fromkeys(("arch", "source", "reservation", "rdma"), "other"),
    **dict.fromkeys(("gpu_count", "gpu_memory_gib", "memory_gib", "local_ssd_gib"), "0.001"),
    **{key: {"amount": "99", "currency": "USD"} for key in ("price", "price_usd", "ceiling_usd")},
    "vcpus": 400,
    "purchase": "spot",
    "as_of": "2020-01-01",
    "quoted_at": "2027-01-01T00:00:00Z",
    "flags": ["stale"],
}


def test_counts_are_numbers_in_the_document_also_of_a_share_of_a_gpu() -> None:
    assert [each["gpu_count"] for each in SAVED.as_json()["attempts"]] == [1, 0.166667]


def test_the_figures_are_all_there_are() -> None:
    assert {*FIGURES, "quoted"} == set(SAVED.attempts[0].as_json()), "quoted follows from quoted_at"


@pytest.mark.parametrize("figure", FIGURES)
def test_no_figure_of_an_attempt_can_be_edited(figure: str) -> None:
    document = json.loads(json.dumps(SAVED.as_json()))
    document["attempts"][0][figure] = FIGURES[figure]
    with pytest.raises(UsageError, match="edited"):
        Plan.from_json(document)


def test_a_saved_plan_gives_no_figure_of_its_own() -> None:
    """Whoever forges the digest too gains nothing: what is bought on is computed today."""
    today = replace(SAVED, created_at=NOW, left_out={})
    forged = replace(SAVED, endings={"aws": "never"}, attempts=SAVED.attempts[::-1])
    assert renewed(forged, today) == replace(today, attempts=SAVED.attempts[::-1])


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"gpu_count": Decimal(8)}, UsageError, "gpu_count 8"),
        ({"vcpus": 96}, UsageError, "vcpus 96"),
        ({"reservation": "cr-1"}, UsageError, "reservation cr-1"),
        ({"price_usd": Decimal("0.01")}, PriceError, "the price in USD rose from 0.01 to 1.00 per hour"),
        ({"ceiling_usd": Decimal(9)}, PriceError, "the most it may cost fell from 9 to 1.00 USD per hour"),
        ({"price": Decimal("0.90")}, PriceError, "the price rose from 0.90 to 1.00 USD per hour"),
        ({"zone": "z9"}, PriceError, "no longer offered"),
    ],
)
def test_a_figure_that_today_does_not_agree_with_is_refused(
    change: dict[str, Any], error: type[GpucloudError], says: str
) -> None:
    saved = replace(SAVED, attempts=(replace(SAVED.attempts[0], **change),))
    with pytest.raises(error, match=re.escape(says)):
        renewed(saved, SAVED)


@pytest.mark.parametrize(
    ("wanted", "nodes", "offered", "joined"),
    [
        ("efa", 2, "efa", "efa"),
        ("any", 2, "infiniband", "infiniband"),
        ("any", 1, "efa", None),
        (None, 2, "efa", None),
        ("none", 2, "efa", None),
    ],
)
def test_nodes_are_joined_by_rdma_where_that_was_asked_for_and_there_are_several(
    wanted: str | None, nodes: int, offered: str, joined: str | None
) -> None:
    assert fabric_of(wanted, nodes, offered) == joined


def test_a_price_that_is_named_again_keeps_the_ceiling_that_was_agreed_to() -> None:
    agreed = a_candidate(ceiling_usd=Decimal("1.02"), flags=("x",))
    now = repriced(agreed, [a_quote("aws/r1/z1", "3"), a_quote("aws/r1/z2", "4")], usd=usd)
    assert now is not None
    assert (str(now.price_usd), now.quoted_at) == ("3", NOW)
    assert (now.ceiling_usd, now.flags) == (agreed.ceiling_usd, ("x",))


def test_the_dearest_zone_counts_where_the_offer_is_of_none() -> None:
    now = repriced(a_candidate("aws/r1/"), [a_quote("aws/r1/z1", "3"), a_quote("aws/r1/z2", "4")], usd=usd)
    assert now is not None
    assert (now.zone, str(now.price)) == ("", "4")


@pytest.mark.parametrize("quote", [a_quote("aws/r9/", "3"), a_quote("aws/r1/", "3", currency="XXX")])
def test_a_price_of_somewhere_else_or_without_a_rate_is_none(quote: Quote) -> None:
    assert repriced(a_candidate(), [quote], usd=usd) is None


def test_a_price_that_moved_is_told_either_way() -> None:
    """A saved plan is done exactly, or not at all."""
    saved = Plan(created_at=NOW, spec={}, attempts=(a_candidate(), a_candidate("aws/r2/z")), left_out={})
    today = replace(saved, attempts=(a_candidate(price="0.90"),))
    assert changes(saved, saved) == []
    assert [sentence.split(":")[0] for sentence in changes(saved, today)] == [
        "aws r1 z1 t.large on-demand",
        "aws r2 z t.large on-demand",
    ]
