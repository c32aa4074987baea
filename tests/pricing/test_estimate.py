"""Estimates: what is computed, and what is said of what is not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpucloud_pricing import (
    PURCHASES,
    Demand,
    Interruption,
    Market,
    Offer,
    Rate,
    Tariff,
    parse_requirements,
)
from gpucloud_pricing.billing import Billing
from gpucloud_pricing.estimate import compare, estimate, hourly, on_demand_prices, place_of, ways
from gpucloud_pricing.terms import Usage
from gpucloud_pricing.values import Experience
from tests.builders import a_price, an_instance_type, an_offer

TODAY = date(2026, 11, 20)


def known(amount: Decimal | None) -> Decimal:
    assert amount is not None
    return amount


def offer(
    usd: str | None = "1",
    *,
    purchase: str = "on_demand",
    cloud: str = "aws",
    band: Interruption | None = None,
) -> Offer:
    return an_offer(
        usd,
        kind=an_instance_type(cloud=cloud),
        region="r1",
        purchase=purchase,
        quote=usd and a_price(usd, cloud=cloud, region="r1", purchase=purchase),
        interruption=band,
    )


UNITS = {"disk": "gib_month", "address": "hour", "egress": "gb", "egress_allowance": "gb"}


def tariff(kind: str, amount: str, *, terms: str = "", region: str = "r1", currency: str = "USD") -> Tariff:
    return Tariff(
        cloud="aws",
        region=region,
        kind=kind,
        sku="plain",
        unit=UNITS[kind],
        terms=terms,
        amount=Decimal(amount),
        currency=currency,
        as_of=None,
        source="test",
    )


RATE = Rate(base="USD", quote="CNY", rate=Decimal(7), as_of=TODAY, source="test")
ALL = (
    tariff("disk", "0.073"),
    tariff("address", "0.005", region="*"),
    tariff("egress", "0.1"),
)


def market(*tariffs: Tariff) -> Market:
    return Market.build(types=[], offers=[], tariffs=tariffs, rates=[RATE])


def band(low: int, high: int) -> Interruption:
    return Interruption(low=low, high=high, savings_percent=70, as_of=TODAY, source="test")


def test_the_total_is_compute_disk_address_and_egress_of_all_nodes_with_boot_and_idle_time() -> None:
    usage = Usage(
        hours=Decimal(9), nodes=2, disk_gib=100, egress_gib=Decimal(50), boot_s=1800, idle_s=1800
    )  # ten billed hours of two nodes
    e = estimate(market(*ALL), offer("3"), usage, on_demand_usd=None)
    assert e.compute == 60
    assert e.disk == Decimal("0.2")  # 100 GiB x 20 h x 0.073 / 730
    assert e.address == Decimal("0.1")
    assert e.egress == 5
    assert e.total == e.expected_total == Decimal("65.3")
    assert e.complete
    assert not e.unknown


def test_the_range_is_from_nothing_wasted_to_boots_that_take_as_long_as_they_may() -> None:
    usage = Usage(
        hours=Decimal(10), disk_gib=0, boot_s=900, boot_limit_s=2700, idle_s=1800, failed_attempts=1
    )
    e = estimate(market(tariff("address", "0")), offer("4"), usage, on_demand_usd=None)
    assert e.low_total == 41  # 10 h + 15 min
    assert e.total == e.expected_total == 44  # and 15 min of the failed attempt, and 30 min of idle tail
    assert e.high_total == 48  # with two boots of 45 min


def test_attempts_that_fail_cost_nothing_more_where_the_term_is_paid() -> None:
    usage = Usage(hours=Decimal(10), disk_gib=0, failed_attempts=5)
    e = estimate(market(*ALL), offer("1", purchase="reserved_1y"), usage, on_demand_usd=None)
    assert e.compute == 8760


def test_an_unknown_part_is_no_zero_and_the_total_says_that_it_is_a_lower_bound() -> None:
    usage = Usage(hours=Decimal(10), boot_s=0, egress_gib=Decimal(1))
    e = estimate(market(ALL[0]), offer("3"), usage, on_demand_usd=None)
    document = e.document()
    assert document["address"] is None
    assert document["egress"] is None
    assert not document["complete"]
    assert document["unknown"]["address"] == "no address price is known for aws r1"
    assert document["unknown"]["total"] == "a lower bound: without address and egress"
    assert document["total"] == {"amount": "30.1000", "currency": "USD"}


def test_nothing_sent_costs_nothing_even_where_no_egress_price_is_known() -> None:
    e = estimate(market(*ALL[:2]), offer(), Usage(hours=Decimal(1)), on_demand_usd=None)
    assert e.egress == 0
    assert e.complete


def test_data_is_sent_evenly_over_the_months_of_the_work_each_with_its_allowance() -> None:
    free = replace(tariff("egress_allowance", "0"), tier_to=Decimal(100))
    tariffs = market(free, tariff("egress", "0.09"))
    short, long = (
        estimate(tariffs, offer(), Usage(hours=Decimal(hours), egress_gib=Decimal(600)), on_demand_usd=None)
        for hours in (73, 3 * 730)
    )
    assert short.egress == 45  # (600 - 100) x 0.09
    assert long.egress == 27  # (200 - 100) x 0.09 x 3


def test_an_offer_without_a_price_has_no_total() -> None:
    e = estimate(market(*ALL), offer(None), Usage(hours=Decimal(1)), on_demand_usd=None)
    assert e.compute is e.total is e.expected_total is None
    assert "no public price" in e.unknown["total"]


def test_a_tariff_in_yuan_is_converted_and_subscription_disks_go_with_subscriptions_alone() -> None:
    tariffs = (
        tariff("disk", "7.3", currency="CNY"),
        tariff("disk", "0.73", terms="subscription", currency="CNY"),
    )
    usage = Usage(hours=Decimal(7), boot_s=0, disk_gib=100)
    assert estimate(market(*tariffs), offer(), usage, on_demand_usd=None).disk == 1
    subscribed = offer(purchase="subscription_1m")
    assert estimate(market(*tariffs), subscribed, usage, on_demand_usd=None).disk == Decimal("0.1")


def test_a_commitment_owes_its_whole_term_and_breaks_even_where_a_month_costs_the_same() -> None:
    usage = Usage(hours=Decimal(72), disk_gib=0)
    e = estimate(market(*ALL), offer("0.5", purchase="reserved_1y"), usage, on_demand_usd=Decimal(1))
    assert e.compute == 4380  # 8760 h
    assert e.break_even_hours == 365


def test_hours_after_a_term_cost_the_less_of_another_term_and_on_demand() -> None:
    """A year and five minutes of boot is a year and five minutes on demand, not two years."""
    year = offer("0.5", purchase="reserved_1y")

    def compute(hours: int, on_demand: str | None, nodes: int = 1) -> Decimal:
        usage = Usage(hours=Decimal(hours), disk_gib=0, nodes=nodes, boot_s=300)
        hour = None if on_demand is None else Decimal(on_demand)
        return round(known(estimate(market(*ALL), year, usage, on_demand_usd=hour).compute), 6)

    assert compute(8760, "1.2") == 4380 + Decimal("0.1")
    assert compute(8760, "1.2", nodes=3) == 3 * (4380 + Decimal("0.1"))
    assert compute(8760 + 4379, "1.2") == 8760, "another term is less than 5254.90"
    assert compute(8760 + 4379, "0.99") == Decimal("8715.2925"), "4380 + 4379.0833 h x 0.99"
    assert compute(8760 + 4380, "1") == 8760, "five minutes more than a term costs"
    assert compute(8760, None) == 8760, "what is not known on demand takes another term"
    assert compute(1, "1") == 4380, "the first term is owed whole"


def test_a_commitment_that_never_pays_has_no_break_even_and_an_unknown_one_has_a_reason() -> None:
    dear = estimate(
        market(), offer("1.1", purchase="reserved_3y"), Usage(hours=Decimal(1)), on_demand_usd=Decimal(1)
    )
    assert dear.document()["break_even_hours"] is None
    assert "break_even_hours" not in dear.unknown
    alone = estimate(
        market(), offer("1", purchase="reserved_3y"), Usage(hours=Decimal(1)), on_demand_usd=None
    )
    assert "no on-demand price" in alone.unknown["break_even_hours"]


def test_spot_is_expected_to_cost_more_the_more_often_it_is_taken_back() -> None:
    usage = Usage(hours=Decimal(200))
    spot = [offer("1", purchase="spot", band=band(*ends)) for ends in ((0, 5), (5, 10), (20, 100))]
    costs = [known(estimate(market(*ALL), o, usage, on_demand_usd=None).expected_total) for o in spot]
    plain = known(estimate(market(*ALL), offer("1"), usage, on_demand_usd=None).total)
    assert plain < costs[0] < costs[1] < costs[2]


def test_more_nodes_are_interrupted_more_often() -> None:
    def per_node(nodes: int) -> Decimal:
        usage = Usage(hours=Decimal(200), nodes=nodes)
        spot = offer("1", purchase="spot", band=band(5, 10))
        return known(estimate(market(*ALL), spot, usage, on_demand_usd=None).expected_total) / nodes

    assert per_node(8) > per_node(1)


def test_spot_without_a_known_interruption_rate_has_no_expected_total() -> None:
    e = estimate(market(*ALL), offer("1", purchase="spot"), Usage(hours=Decimal(10)), on_demand_usd=None)
    assert e.expected_total is None
    assert e.total is not None
    assert e.unknown["expected_total"] == "no interruption rate is known"


def test_checkpoints_make_spot_cheaper_and_the_range_narrower() -> None:
    often = offer("1", purchase="spot", band=band(20, 100))
    without, with_ = (
        estimate(market(*ALL), often, usage, on_demand_usd=Decimal(3))
        for usage in (
            Usage(hours=Decimal(300)),
            Usage(hours=Decimal(300), checkpoint_s=7200, save_s=60),
        )
    )
    assert known(with_.expected_total) < known(without.expected_total)
    for e in (without, with_):
        assert known(e.low_total) < known(e.expected_total) < known(e.high_total)
    assert known(with_.high_total) - known(with_.low_total) < known(without.high_total) - known(
        without.low_total
    )


def test_on_demand_can_be_the_better_buy() -> None:
    """Two hundred hours that begin again after each interruption, a third below the price on demand."""
    often = offer("1", purchase="spot", band=band(20, 100))
    usage = Usage(hours=Decimal(500))
    dear = estimate(market(*ALL), often, usage, on_demand_usd=Decimal("1.1"))
    cheap = estimate(market(*ALL), often, usage, on_demand_usd=Decimal(9))
    assert (dear.spot and dear.spot.dearer, cheap.spot and cheap.spot.dearer) == (True, False)
    assert dear.document()["spot"]["dearer_than_on_demand"] is True


def test_work_that_practically_never_ends_has_no_expected_total() -> None:
    often = offer("1", purchase="spot", band=band(20, 100))
    e = estimate(market(*ALL), often, Usage(hours=Decimal(730), nodes=2000), on_demand_usd=None)
    assert e.expected_total is None
    assert "never ends" in e.unknown["expected_total"]


def test_work_that_ends_but_at_the_worst_never_has_no_high_total() -> None:
    """Thirty nodes in a month: at the high rate 30 interruptions, at the middle 3.3, at the low 0.2."""
    often = offer("1", purchase="spot", band=band(20, 100))
    e = estimate(market(*ALL), often, Usage(hours=Decimal(730), nodes=30), on_demand_usd=None)
    assert e.high_total is None
    assert "never ends" in e.unknown["high_total"]
    assert known(e.total) < known(e.expected_total)
    assert e.document()["spot"]["hours"]["high"] is None


@given(
    st.decimals("0.01", "2000", places=2),
    st.integers(1, 64),
    st.sampled_from([(0, 5), (5, 10), (10, 15), (15, 20), (20, 100)]),
    st.sampled_from([None, 600, 7200]),
    st.integers(0, 2),
)
@settings(max_examples=30)
def test_the_mean_is_inside_the_range_and_never_below_the_total(
    hours: Decimal, nodes: int, ends: tuple[int, int], every: int | None, failed: int
) -> None:
    usage = Usage(
        hours=hours, nodes=nodes, boot_s=0, idle_s=7, checkpoint_s=every, save_s=30, failed_attempts=failed
    )
    minute = Billing(minimum_s=60)
    spot = an_offer(
        "1",
        kind=an_instance_type(billing=minute),
        region="r1",
        purchase="spot",
        quote=a_price("1", region="r1", purchase="spot"),
        interruption=band(*ends),
    )
    e = estimate(market(*ALL), spot, usage, on_demand_usd=Decimal(3))
    if e.spot is None or e.expected_total is None:
        assert "never ends" in e.unknown["expected_total"]
        return
    assert known(e.total) <= known(e.low_total) <= e.expected_total
    assert e.spot.low <= e.spot.outlook.expected
    assert 0 <= e.spot.chance.low < e.spot.chance.middle < e.spot.chance.high <= 1
    if e.high_total is not None and e.spot.high is not None:
        assert e.expected_total <= e.high_total
        assert e.spot.outlook.expected <= e.spot.high


def test_the_users_own_history_replaces_the_band_once_it_is_long_enough() -> None:
    """Ten interruptions in 1000 h: 10.5 / 1000 an hour, of 10 hours and 5 minutes: 10.05 %."""
    usage, banded = Usage(hours=Decimal(10)), offer("1", purchase="spot", band=band(0, 5))
    own = Experience(hours=1000, interruptions=10, since=TODAY, until=TODAY)
    e = estimate(market(*ALL), replace(banded, experience=own), usage, on_demand_usd=None)
    told = e.document()["spot"]
    assert told["chance_percent"]["middle"] == 10.05
    assert told["evidence"]["kind"] == "own_history"
    assert told["evidence"]["machine_hours"] == 1000
    short = replace(banded, experience=replace(own, interruptions=1))
    e = estimate(market(*ALL), short, usage, on_demand_usd=None)
    assert e.document()["spot"]["evidence"] == {
        "kind": "band",
        "percent_per_month": [0, 5],
        "as_of": "2026-11-20",
        "source": "test",
    }
    alone = replace(short, interruption=None)
    e = estimate(market(*ALL), alone, usage, on_demand_usd=None)
    assert e.unknown["expected_total"] == "no interruption rate is known"


def test_what_is_due_at_once_is_told_for_all_nodes() -> None:
    reserved = offer("0.5", purchase="reserved_1y")
    assert reserved.quote is not None
    reserved = replace(reserved, quote=replace(reserved.quote, terms="all upfront", upfront=Decimal(4380)))
    e = estimate(market(*ALL), reserved, Usage(hours=Decimal(1), nodes=2), on_demand_usd=None)
    assert e.upfront == e.compute == 8760
    assert e.document()["upfront"]["amount"] == "8760.0000"
    assert e.document()["offer"]["terms"] == "all upfront"


def test_ways_of_paying_are_compared_for_the_same_place_and_sorted_by_what_they_should_cost() -> None:
    real = Market.load()
    found = real.search(Demand(gpus=parse_requirements("T4"), purchases=PURCHASES), TODAY)
    usage = Usage(hours=Decimal(72))
    chosen = ways(real, found, PURCHASES, usage, 1)
    estimates = compare(real, chosen, usage, on_demand_prices(real, chosen))
    assert {e.offer.purchase for e in estimates} >= {"on_demand", "spot", "reserved_1y"}
    costs = [(e.rank, known(e.expected_total)) for e in estimates if not e.offer.flags]
    assert costs == sorted(costs), "the complete ones first"
    committed = next(e for e in estimates if e.offer.purchase == "reserved_1y")
    same = next(
        e for e in estimates if e.offer.purchase == "on_demand" and e.offer.region == committed.offer.region
    )
    expected = known(committed.offer.price_usd) * 730 / known(same.offer.price_usd)
    assert committed.break_even_hours == expected


def test_a_running_box_costs_compute_disk_and_address_per_hour() -> None:
    per_hour, missing = hourly(
        market(*ALL), offer("1"), Usage(hours=Decimal(9), nodes=2, egress_gib=Decimal(7))
    )
    assert per_hour == Decimal("2.03")
    assert not missing


# --- seeds of doubt


def elsewhere(found: Offer, **changes: Any) -> Offer:
    """The same type in another place, priced otherwise."""
    assert found.quote is not None
    price = replace(found.quote, **changes)
    return replace(
        found, region=price.region, quote=price, price_usd=market().usd(price.amount, price.currency)
    )


def test_spot_above_on_demand_does_not_win() -> None:
    """As it happens in places that are short: the same machine, taken back, for more."""
    dear, steady = offer("1.2", purchase="spot", band=band(5, 10)), offer("1")
    found = compare(market(*ALL), [dear, steady], Usage(hours=Decimal(10)), {place_of(steady): Decimal(1)})
    assert [e.offer.purchase for e in found] == ["on_demand", "spot"]
    assert found[1].spot is not None
    assert found[1].spot.dearer


def test_a_term_that_is_longer_than_the_need_is_owed_all_the_same() -> None:
    """A tenth of the price on demand by the hour, and dearer by far: ten hours of need, a year of debt."""
    year, steady = offer("0.1", purchase="reserved_1y"), offer("1")
    found = compare(market(*ALL), [year, steady], Usage(hours=Decimal(10)), {place_of(steady): Decimal(1)})
    assert [e.offer.purchase for e in found] == ["on_demand", "reserved_1y"]
    assert found[1].compute == 876


def test_currencies_are_compared_at_the_reference_rate() -> None:
    """Seven yuan are a dollar: 6.3 of them are less than a dollar, 7.7 more."""
    cheap, dear = (
        elsewhere(offer("1"), region=region, amount=Decimal(amount), currency="CNY")
        for region, amount in (("r2", "6.3"), ("r3", "7.7"))
    )
    found = compare(market(*ALL), [dear, offer("1"), cheap], Usage(hours=Decimal(10), disk_gib=0), {})
    assert [e.offer.region for e in found] == ["r2", "r1", "r3"]
    assert [round(known(e.compute), 2) for e in found] == [
        round(known(e.offer.price_usd) * Usage(hours=Decimal(10)).billed_hours, 2) for e in found
    ]


def test_a_region_without_a_price_comes_last_and_is_no_bargain() -> None:
    nothing = replace(offer(None), region="r9")
    found = compare(market(*ALL), [nothing, offer("99")], Usage(hours=Decimal(1)), {})
    assert [e.offer.region for e in found] == ["r1", "r9"]
    assert found[1].total is None


# --- what is unknown does not win


def test_a_lower_bound_comes_after_every_complete_total() -> None:
    """A hundredth of the price where disks have no known price; and spot of which no rate is known."""
    bargain = elsewhere(offer("0.01"), region="r2")
    risky = offer("0.01", purchase="spot")
    usage = Usage(hours=Decimal(10), boot_s=0, disk_gib=100)
    found = compare(market(*ALL), [bargain, risky, offer("1")], usage, {})
    assert [(e.offer.region, e.offer.purchase, e.rank) for e in found] == [
        ("r1", "on_demand", 0),
        ("r2", "on_demand", 1),
        ("r1", "spot", 1),
    ]
    assert [e.missing for e in found] == [[], ["disk"], ["expected_total"]]


def test_where_the_cheapest_place_has_an_unknown_part_the_cheapest_complete_one_is_compared_too() -> None:
    cheap, cheapest = elsewhere(offer("0.5"), region="r2"), elsewhere(offer("0.1"), region="r3")
    offers = [cheapest, cheap, offer("1"), elsewhere(offer("2"), region="r1")]
    usage = Usage(hours=Decimal(10), disk_gib=100)
    chosen = ways(market(*ALL), offers, ("on_demand",), usage, 1)
    assert [o.region for o in chosen] == ["r3", "r1"]
    assert [o.region for o in ways(market(*ALL), offers[2:], ("on_demand",), usage, 1)] == ["r1"]


def test_a_discount_of_a_hundred_percent_leaves_nothing_to_compare_with() -> None:
    year = offer("0.5", purchase="reserved_1y")
    e = estimate(market(*ALL), year, Usage(hours=Decimal(9000)), on_demand_usd=Decimal(0))
    assert e.break_even_hours is None
    assert e.compute == 4380, "the hours after the term are free on demand"


@given(
    purchase=st.sampled_from(["on_demand", "spot", "reserved_1y", "subscription_1m", "capacity_block"]),
    hours=st.decimals("0.01", "5000", places=2),
    nodes=st.integers(1, 16),
    idle_s=st.integers(0, 7200),
    failed=st.integers(0, 3),
    minimum_s=st.sampled_from([0, 60]),
    high=st.integers(1, 99),
    checkpoint_s=st.none() | st.integers(60, 100_000),
)
@settings(max_examples=60, deadline=None)
def test_the_expected_cost_is_never_below_the_total(
    *,
    purchase: str,
    hours: Decimal,
    nodes: int,
    idle_s: int,
    failed: int,
    minimum_s: int,
    high: int,
    checkpoint_s: int | None,
) -> None:
    """Interruptions only add; and both are within the range that is shown."""
    plain = offer("1", purchase=purchase, band=band(0, high) if purchase == "spot" else None)
    one = replace(plain, kind=an_instance_type(billing=Billing(minimum_s=minimum_s)))
    usage = Usage(
        hours=hours, nodes=nodes, idle_s=idle_s, failed_attempts=failed, checkpoint_s=checkpoint_s, boot_s=0
    )
    e = estimate(market(*ALL), one, usage, on_demand_usd=Decimal(2))
    if e.expected_total is not None:
        assert e.total is not None
        assert e.expected_total >= e.total
        if e.high_total is None:  # at the high rate, it practically never ends
            assert "high_total" in e.unknown
        else:
            assert e.high_total >= e.total


def test_a_minute_of_spot_is_billed_as_one() -> None:
    """36 s of work: the total counts the least time that is billed, and so does what is expected."""
    spot = replace(
        offer("60", purchase="spot", band=band(0, 5)), kind=an_instance_type(billing=Billing(minimum_s=60))
    )
    e = estimate(market(*ALL), spot, Usage(hours=Decimal("0.01"), boot_s=0, disk_gib=0), on_demand_usd=None)
    assert round(known(e.compute), 6) == 1
    assert known(e.expected_total) >= known(e.total)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["r1", "r2"]),
            st.sampled_from(["on_demand", "spot", "reserved_1y", "capacity_block"]),
            st.none() | st.decimals("0.01", "9", places=2).map(str),
            st.booleans(),
        ),
        max_size=8,
    )
)
@settings(deadline=None)
def test_no_lower_bound_comes_before_a_complete_cost(sold: list[tuple[str, str, str | None, bool]]) -> None:
    """Disks have a price in r1 only, and spot may have no rate of interruption."""
    offers = [
        replace(offer(usd, purchase=purchase, band=band(0, 5) if rated else None), region=region)
        for region, purchase, usd, rated in sold
    ]
    found = compare(market(*ALL), offers, Usage(hours=Decimal(10), disk_gib=100), {})
    certain = [e.complete and e.expected_total is not None for e in found]
    assert certain == sorted(certain, reverse=True)
    for rank in (0, 1):
        costs = [e.expected_total or e.total or 0 for e in found if e.rank == rank]
        assert costs == sorted(costs)
