"""Rates of interruption: their bounds by hand, from tables, and from losses that are drawn one by one."""

from __future__ import annotations

import csv
import random
from datetime import date
from pathlib import Path

import pytest

import gpucloud_pricing
from gpucloud_pricing import Interruption
from gpucloud_pricing.gamma import gamma_percentile
from gpucloud_pricing.interruptions import (
    any_of,
    band_rate,
    chances,
    hazard,
    is_enough,
    own_rate,
)
from gpucloud_pricing.spot_traces import V100_HOURS
from gpucloud_pricing.values import Experience

DAY = date(2026, 11, 20)


def a_band(low: int, high: int) -> Interruption:
    return Interruption(low=low, high=high, savings_percent=70, as_of=DAY, source="test")


def history(hours: float, interruptions: int) -> Experience:
    return Experience(hours=hours, interruptions=interruptions, since=DAY, until=DAY)


@pytest.mark.parametrize(
    ("low", "high", "hours", "nodes", "percent"),
    [
        # 0.05 x 73 / 730; 0.075 x 73 / sqrt(73 x 730); 0.1: then 1 - e^-x
        (5, 10, 73, 1, (0.499, 2.344, 9.516)),
        # the same, times 1, 2 and 4
        (5, 10, 73, 4, (0.499, 4.632, 32.968)),
        # nothing; 0.025 x 73 / sqrt(73 x 730); 0.05
        (0, 5, 73, 1, (0.0, 0.7874, 4.877)),
        # a month: 0.2, 0.6, 1 interruptions, whatever the reading
        (20, 100, 730, 1, (18.127, 45.119, 63.212)),
        # two months: twice that
        (20, 100, 1460, 1, (32.968, 69.881, 86.466)),
    ],
)
def test_the_chance_of_an_interruption_is_what_a_pocket_calculator_gives(
    low: int, high: int, hours: float, nodes: int, percent: tuple[float, float, float]
) -> None:
    found = chances(hazard(a_band(low, high), hours, nodes), hours)
    assert (found.low * 100, found.middle * 100, found.high * 100) == pytest.approx(percent, abs=0.001)


def test_the_longer_the_work_the_more_the_readings_agree() -> None:
    """The high one is of machines as long as the work, up to a month."""
    rates = [band_rate(a_band(5, 10), hours) for hours in (1, 24, 168, 730, 2000)]
    assert [rate.high / rate.low for rate in rates] == pytest.approx([1460, 60.83, 8.69, 2, 2], abs=0.01)


@pytest.mark.parametrize("joint", [0.0, 0.3, 0.92, 1.0])
def test_the_rate_of_losing_any_node_is_within_its_bounds_whatever_is_lost_together(joint: float) -> None:
    """Losses drawn hour by hour: a share of each node's is of all nodes at once, the rest of it alone."""
    nodes, each, hours = 8, 0.01, 40_000
    draw = random.Random(7)  # noqa: S311  (a simulation)
    losses = 0
    for _ in range(hours):
        all_at_once = draw.random() < each * joint
        alone = any(draw.random() < each * (1 - joint) for _ in range(nodes))
        losses += all_at_once or alone
    factor = any_of(nodes)
    assert factor.low * each * 0.9 < losses / hours < factor.high * each * 1.02
    assert factor.low < factor.middle < factor.high
    assert any_of(1) == any_of(1).times(any_of(1)), "one node: no doubt"


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        # half of the tabled 5th and 95th percentiles of chi-square with 1, 7 and 21 degrees of freedom
        (0.5, 0.00393 / 2, 3.8415 / 2),
        (3.5, 2.1673 / 2, 14.0671 / 2),
        (10.5, 11.5913 / 2, 32.6706 / 2),
    ],
)
def test_the_percentiles_of_the_gamma_distribution_are_those_of_a_table(
    shape: float, low: float, high: float
) -> None:
    assert gamma_percentile(shape, 0.05) == pytest.approx(low, rel=0.001)
    assert gamma_percentile(shape, 0.95) == pytest.approx(high, rel=0.0001)


def test_the_rate_of_an_own_history() -> None:
    """Three interruptions in 100 machine-hours: 3.5, and the chi-square table with 7 degrees of freedom."""
    rate = own_rate(history(100, 3))
    assert (rate.low, rate.middle, rate.high) == pytest.approx((0.010837, 0.035, 0.070336), rel=0.001)


def test_the_bounds_of_an_own_history_hold_the_true_rate_nine_times_of_ten() -> None:
    """Machines of a known rate, hour by hour."""
    draw, true, hours = random.Random(3), 0.02, 400  # noqa: S311  (a simulation)
    held = 0
    for _ in range(300):
        lost = sum(draw.random() < true for _ in range(hours))
        rate = own_rate(history(hours, lost))
        held += rate.low <= true <= rate.high
    assert 0.86 < held / 300 < 0.97


@pytest.mark.parametrize(
    ("hours", "interruptions", "enough"), [(1459, 0, False), (1460, 0, True), (9, 2, False), (9, 3, True)]
)
def test_an_own_history_counts_from_three_interruptions_or_two_machine_months_on(
    hours: float, interruptions: int, *, enough: bool
) -> None:
    assert is_enough(history(hours, interruptions)) == enough
    assert own_rate(history(1460, 0)).high * 730 == pytest.approx(0.96, abs=0.001)


def test_the_measured_figures_are_those_of_the_traces() -> None:
    file = Path(gpucloud_pricing.__file__).parent / "data" / "spot_interruptions_measured.csv"
    with file.open(encoding="utf-8", newline="") as opened:
        means = [
            float(row["mean_hours_between_preemptions"])
            for row in csv.DictReader(opened)
            if row["gpu"] == "V100"
        ]
    assert (min(means), max(means)) == pytest.approx(V100_HOURS, abs=0.05)
    assert len(means) == 23
    assert sum(1 < mean < 7 for mean in means) == 19, "most of them"
