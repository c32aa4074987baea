"""The hours of a computation on each machine, computed by hand, and the costs of these hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from gpucloud_pricing import InstanceType, Interruption, Market, Offer, Tariff
from gpucloud_pricing.billing import Billing
from gpucloud_pricing.capital import present_value
from gpucloud_pricing.computation import Computation
from gpucloud_pricing.estimate import Estimate, compare, estimate
from gpucloud_pricing.figures import figures
from gpucloud_pricing.purchases import CAPACITY_BLOCK
from gpucloud_pricing.terms import Usage, is_longer
from gpucloud_pricing.values import UnsuitableError
from tests.builders import a_price, an_instance_type, an_offer

DAY = date(2026, 11, 20)
TARIFFS = [
    Tariff(
        cloud="aws",
        region="*",
        kind=kind,
        sku="plain",
        unit=unit,
        amount=Decimal(amount),
        currency="USD",
        as_of=DAY,
        source="t",
    )
    for kind, unit, amount in (
        ("disk", "gib_month", "0.073"),
        ("address", "hour", "0.005"),
        ("egress", "gb", "0.1"),
    )
]


def machine(model: str, memory_gib: int, count: str = "1", *, minimum_s: int = 0) -> InstanceType:
    return an_instance_type(
        name=f"{model.lower()}.{count}",
        gpu_model=model,
        gpu_memory_gib=Decimal(memory_gib),
        gpu_count=Decimal(count),
        billing=Billing(minimum_s=minimum_s),
    )


def sold(kind: InstanceType, usd: str, purchase: str = "on_demand", **changes: object) -> Offer:
    quote = a_price(usd, purchase=purchase, instance_type=kind.name)
    return an_offer(usd, kind=kind, purchase=purchase, quote=quote, **changes)


def usage(flop: str, mfu: str = "0.4", *, nodes: int = 1) -> Usage:
    work = Computation(flop=Decimal(flop), mfu=Decimal(mfu))
    return Usage(hours=Decimal(0), computation=work, nodes=nodes, disk_gib=0, boot_s=0)


T4, A100 = machine("T4", 16), machine("A100", 40, "8")
MARKET = Market.build(types=[T4, A100], offers=[], tariffs=TARIFFS, rates=[])


@pytest.mark.parametrize(
    ("kind", "flop", "mfu", "nodes", "hours"),
    [
        # 65 TFLOPS (FP16, as Turing has no BF16) x 0.4 x 3600 s = 9.36e16 an hour
        (T4, "9.36e17", "0.4", 1, "10"),
        (T4, "9.36e17", "0.8", 1, "5"),
        # half a GPU does half of it
        (machine("T4", 16, "0.5"), "9.36e17", "0.4", 1, "20"),
        # 312 TFLOPS (BF16) x 8 x 0.4 x 3600 s = 3.59424e18 an hour; two nodes do twice as much
        (A100, "3.59424e20", "0.4", 1, "100"),
        (A100, "3.59424e20", "0.4", 2, "50"),
        # 125 TFLOPS (FP16) of a V100 SXM2 x 1 x 1 x 3600 s = 4.5e17 an hour
        (machine("V100", 16), "4.5e17", "1", 1, "1"),
    ],
    ids=lambda each: each.name if isinstance(each, InstanceType) else str(each),
)
def test_the_hours_are_those_that_a_pocket_calculator_gives(
    kind: InstanceType, flop: str, mfu: str, nodes: int, hours: str
) -> None:
    assert usage(flop, mfu, nodes=nodes).on(kind).hours == Decimal(hours)


WAYS = [
    sold(T4, "1"),
    sold(
        T4,
        "0.3",
        "spot",
        interruption=Interruption(low=5, high=10, savings_percent=70, as_of=DAY, source="t"),
    ),
    sold(T4, "0.5", "reserved_1y"),
    sold(T4, "2", CAPACITY_BLOCK),
]


@pytest.mark.parametrize("offer", WAYS, ids=lambda offer: offer.purchase)
def test_each_way_of_paying_costs_what_its_hours_cost(offer: Offer) -> None:
    """Interruptions, terms, blocks, disks and egress see the hours of the machine: a hundred, on a T4."""
    work = replace(usage("9.36e18"), boot_s=300, disk_gib=100, egress_gib=Decimal(50))
    plain = replace(work, hours=Decimal(100), computation=None)

    def told(e: Estimate) -> Estimate:
        return replace(e, usage=None)

    found, same = (estimate(MARKET, offer, each, on_demand_usd=Decimal(1)) for each in (work, plain))
    assert told(found) == told(same)
    assert found.total is not None
    assert found.usage is not None
    assert found.usage.hours == 100
    assert present_value(found, Decimal("0.08")) == present_value(same, Decimal("0.08"))
    assert is_longer(offer, work, Decimal(48)) == is_longer(offer, plain, Decimal(48))


def test_the_longer_a_machine_takes_the_likelier_it_is_interrupted() -> None:
    band = Interruption(low=5, high=10, savings_percent=70, as_of=DAY, source="t")
    slow, fast = (
        estimate(MARKET, sold(kind, "1", "spot", interruption=band), usage("1e20"), on_demand_usd=None)
        for kind in (T4, A100)
    )
    assert slow.spot is not None
    assert fast.spot is not None
    assert slow.spot.chance.middle > fast.spot.chance.middle


def test_the_least_that_a_cloud_bills_holds_for_a_short_computation() -> None:
    """2.6e13 operations take a T4 one second; a minute of 3.60 USD an hour costs 0.06."""
    offer = sold(machine("T4", 16, minimum_s=60), "3.60")
    found = estimate(MARKET, offer, usage("2.6e13"), on_demand_usd=None)
    assert found.compute is not None
    assert round(found.compute, 6) == Decimal("0.06")


def test_the_cheapest_total_comes_first_and_a_gpu_without_a_figure_last() -> None:
    """One hour of 8 A100 costs 30 USD, 38.4 hours of a T4 38.40; a K80 for nothing proves nothing."""
    unknown, slow, fast = sold(machine("K80", 12), "0"), sold(T4, "1"), sold(A100, "30")
    found = compare(MARKET, [unknown, slow, fast], usage("3.59424e18"), {})
    assert [each.offer for each in found] == [fast, slow, unknown]
    assert [each.compute for each in found] == [30, Decimal("38.4"), None]
    last = found[-1]
    assert (last.usage, last.total, last.expected_total) == (None, None, None)
    assert set(last.unknown.values()) == {
        "no BF16 or FP16 rate of K80 is known (Kepler has no FP16 arithmetic)"
    }
    (figure,) = figures(MARKET, last)
    assert figure.amount is None
    assert figure.formula == last.unknown["compute"]


def test_more_than_a_century_is_no_estimate() -> None:
    with pytest.raises(UnsuitableError, match="more than 1,000,000 hours"):
        usage("1e24").on(T4)
    assert usage("1e24").on(A100).hours < 1_000_000


def test_the_hours_are_explained_with_the_rate_and_the_share_of_it() -> None:
    e = estimate(MARKET, sold(A100, "30"), usage("3.59424e20", nodes=2), on_demand_usd=None)
    hours = figures(MARKET, e)[0]
    assert (hours.part, hours.amount, hours.unit) == ("hours", Decimal(50), "h")
    assert hours.formula == "3.59424e+20 FLOP / (312e12 x 8 GPU x 2 x 0.4 x 3600 s)"
    rate, share = hours.rows
    assert rate.what == "peak rate of A100 in BF16, dense"
    assert "arXiv:2407.21783" in share.source
    own = estimate(MARKET, sold(A100, "30"), usage("3.59424e20", "0.5"), on_demand_usd=None)
    assert figures(MARKET, own)[0].rows[1].source == "your own"
