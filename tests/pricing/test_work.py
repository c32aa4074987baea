"""What work costs: figures that a pocket calculator gives, and machines that can do as much."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from gpucloud_pricing import Demand, Market, Offer, parse_requirements
from gpucloud_pricing.work import (
    UNITS,
    NoFigureError,
    Range,
    amount_of,
    amount_wanted,
    cheapest_sets,
    equivalents,
    price_for,
    range_wanted,
)
from tests.builders import an_instance_type, an_offer

TODAY = date(2026, 11, 20)


def offer(
    model: str, memory: int, count: str, usd: str | None, *, name: str = "x", cloud: str = "aws"
) -> Offer:
    kind = an_instance_type(
        cloud=cloud, name=name, gpu_model=model, gpu_count=Decimal(count), gpu_memory_gib=Decimal(memory)
    )
    return an_offer(usd, kind=kind)


def wanted(text: str, measure: str) -> Decimal:
    (requirement,) = parse_requirements(text)
    return amount_wanted(requirement, measure)


@pytest.mark.parametrize(
    ("measure", "amount", "price"),
    [
        ("gpu", "8", "4"),
        ("memory", "320", "0.1"),
        ("fp64", "77.6", "0.412371"),
        ("fp16", "2496", "0.012821"),
        ("bandwidth", "12.44", "2.572347"),
    ],
)
def test_a_machine_with_eight_a100(measure: str, amount: str, price: str) -> None:
    """At 32 USD per hour: 40 GiB, 1555 GB/s and 312 TFLOPS of FP16 each, as NVIDIA's datasheet has it."""
    eight = offer("A100", 40, "8", "32")
    assert amount_of(eight.kind, measure) == Decimal(amount)
    assert round(price_for(eight, measure) or Decimal(0), 6) == Decimal(price)


def test_a_share_of_a_gpu_has_a_share_of_what_it_can_do() -> None:
    sixth = offer("A10", 24, "0.5", "1")
    assert amount_of(sixth.kind, "memory") == 12
    assert amount_of(sixth.kind, "fp16") == Decimal("62.5")


def test_what_is_not_known_has_no_price() -> None:
    assert price_for(offer("T4G", 16, "1", "1"), "fp16") is None
    assert price_for(offer("A100", 40, "8", None), "memory") is None


def test_a_demand_is_measured() -> None:
    assert wanted("A100-40GB:8", "memory") == 320
    assert wanted("A100:8", "fp16") == 2496, "both sizes of memory can do the same"
    assert wanted("H100:2", "gpu") == 2


@pytest.mark.parametrize(
    ("text", "measure", "why"),
    [
        ("A100:8", "memory", "A100-40GB or A100-80GB"),
        ("A100:1..4", "gpu", "a count"),
        ("24GB..:1", "memory", "specify one GPU"),
        ("A100-80GB/1g.10gb:2", "memory", "specify one GPU"),
        ("H100:8", "fp16", "H100-80GB or H100-94GB"),
        ("A100:8", "bandwidth", "A100-40GB or A100-80GB"),
        ("A10G:1", "fp32", "no fp32 figure of A10G is known: only those of the A10"),
        ("V100-32GB:1", "bf16", "Volta has no BF16"),
    ],
)
def test_a_demand_that_cannot_be_measured(text: str, measure: str, why: str) -> None:
    with pytest.raises(NoFigureError, match=why):
        wanted(text, measure)


def test_as_much_memory_as_eight_a100_with_40() -> None:
    """320 GiB: four of 80, or sixteen of 24 rounded up to whole machines."""
    market = [
        offer("A100", 80, "8", "40", name="eight"),
        offer("A100", 80, "4", "21", name="four"),
        offer("A100", 80, "1", "5", name="cheaper in four machines"),
        offer("A10G", 24, "8", "16", name="small"),
        offer("T4", 16, "1", "0.5", name="tiny"),
        replace(offer("H100", 80, "8", "1", name="doubtful"), flags=("implausible",)),
        offer("H200", 141, "8", None, name="unpriced"),
    ]
    found = [
        (e.offer.instance_type, e.nodes, e.per_hour) for e in equivalents(market, Decimal(320), "memory")
    ]
    assert found == [("tiny", 20, Decimal(10)), ("four", 1, Decimal(21)), ("small", 2, Decimal(32))]


def test_with_the_real_market_nothing_has_less_than_was_asked_for() -> None:
    offers = Market.load().search(Demand(), TODAY)
    for measure in UNITS:
        found = equivalents(offers, Decimal(100), measure)
        assert found
        for each in found:
            amount = amount_of(each.offer.kind, measure)
            assert amount is not None
            assert amount * each.nodes >= 100 > amount * (each.nodes - 1)
        assert [e.per_hour for e in found] == sorted(e.per_hour for e in found)


def test_a_size_of_memory_that_is_left_open_gives_a_range() -> None:
    (a100,), (h100,) = parse_requirements("A100:8"), parse_requirements("H100:4")
    memory = range_wanted(a100, "memory"), range_wanted(h100, "memory")
    assert memory == (Range(low=Decimal(320), high=Decimal(640)), Range(low=Decimal(320), high=Decimal(376)))
    assert memory[1].over(memory[0]) == Range(low=Decimal("0.5"), high=Decimal("1.175"))


def test_a_number_of_gpus_is_bought_without_more_gpus_than_asked_for() -> None:
    """The machine of 8 is one, but has 4 GPUs too many: it counts only where nothing has exactly 4."""
    market = [
        offer("H100", 80, "8", "40", name="eight"),
        offer("H100", 80, "1", "7", name="one"),
        offer("H100", 94, "2", "16", name="two", cloud="azure"),
        offer("H100", 94, "1", "5", name="ones", cloud="azure"),
        offer("H100", 80, "8", "39", name="only eight", cloud="alibaba"),
        replace(offer("H100", 80, "4", "1", name="doubtful"), flags=("implausible",)),
    ]
    found = [(e.offer.instance_type, e.nodes, e.per_hour) for e in cheapest_sets(market, Decimal(4))]
    assert found == [("one", 4, Decimal(28)), ("two", 2, Decimal(32)), ("only eight", 1, Decimal(39))]
