"""Work on machines that can be taken back: the formulas against hand-computed values and a simulation."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud_pricing.interruptions import SpotWork, best_interval, outlook, percentile

WORKS = [
    SpotWork(hours=10, boot=0.1, rate=0.01),
    SpotWork(hours=100, boot=0.1, rate=0.01),
    SpotWork(hours=100, boot=0.1, rate=0.01, interval=2, save=0.05),
    SpotWork(hours=48, boot=0.5, rate=0.2, interval=1, save=0.1),
    SpotWork(hours=3, boot=1, rate=0.5),
    SpotWork(hours=7, boot=0, rate=0.1, interval=2, save=0),
]


def step_by_step(work: SpotWork, chance: random.Random) -> float:
    """How long it takes once, minute by minute: nothing of the formulas, nor of the simulation under test."""
    step = 1 / 60
    strikes = 1 - math.exp(-work.rate * step)
    took = saved = 0.0
    boot_left, since = work.boot, 0.0
    each = work.hours / work.segments
    while saved < work.hours - 1e-9:
        took += step
        if chance.random() < strikes:
            boot_left, since = work.boot, 0.0
        elif boot_left > 1e-9:
            boot_left -= step
        else:
            since += step
            if since >= work.segment - 1e-9:
                saved, since = saved + each, 0.0
    return took


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_the_expected_time_is_that_of_many_runs(work: SpotWork) -> None:
    """Within four standard errors of the mean of some hundred runs, and a step of the clock."""
    chance = random.Random(1)  # noqa: S311  (a simulation)
    runs = [step_by_step(work, chance) for _ in range(500 if work.hours < 50 else 150)]
    mean = fmean(runs)
    error = math.sqrt(fmean((run - mean) ** 2 for run in runs) / len(runs))
    told = outlook(work)
    assert told is not None
    assert abs(told.expected - mean) < 4 * error + 0.01 * mean
    low, high = (percentile(work, share) for share in (0.05, 0.95))
    assert low is not None
    assert high is not None
    within = sum(low - 0.1 <= run <= high + 0.1 for run in runs) / len(runs)
    assert within > 0.86


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        # (e^(0.01 * 10.1) - 1) / 0.01
        (WORKS[0], 10.6277),
        # 50 segments of 2.05 h: (e^0.0215 - 1) / 0.01 + 49 e^0.001 (e^0.0205 - 1) / 0.01
        (WORKS[2], 103.7615),
        (SpotWork(hours=5, boot=0.25, rate=0), 5.25),
        (SpotWork(hours=5, boot=0.25, rate=0, interval=1, save=0.1), 5.75),
    ],
    ids=str,
)
def test_what_a_pocket_calculator_gives(work: SpotWork, expected: float) -> None:
    told = outlook(work)
    assert told is not None
    assert told.expected == pytest.approx(expected, abs=0.0001)
    assert told.interruptions == pytest.approx(work.rate * expected, abs=0.0001)
    assert told.lost == pytest.approx(expected - work.undisturbed, abs=0.0001)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.89])
def test_runs_that_are_not_interrupted_take_no_longer(share: float) -> None:
    """e^(-0.01 * 10.1) = 90 % of all runs."""
    assert percentile(WORKS[0], share) == 10.1
    late = percentile(WORKS[0], 0.92)
    assert late is not None
    assert late > 10.1


@pytest.mark.parametrize("share", [0.05, 0.95])
def test_very_many_interruptions_are_no_longer_simulated(share: float) -> None:
    """Just above the limit: as one segment that is tried again and again, from the same draws."""
    work = SpotWork(hours=8.1, boot=0, rate=1)  # e^8.1 - 1 = 3293 interruptions
    chance = random.Random(5)  # noqa: S311  (a simulation)
    took: list[float] = []
    for _ in range(400):
        took.append(0.0)
        while (until := chance.expovariate(1)) < work.hours:
            took[-1] += until
        took[-1] += work.hours
    found = percentile(work, share)
    assert found is not None
    below = sum(run <= found for run in took) / len(took)
    assert abs(below - share) < 0.04


def test_what_practically_never_ends_has_no_outlook() -> None:
    assert outlook(SpotWork(hours=100, boot=0.1, rate=1)) is None
    assert outlook(SpotWork(hours=100, boot=0.1, rate=1, interval=0.5, save=0.01)) is not None


@pytest.mark.parametrize(
    ("save", "rate", "expected"),
    [
        # sqrt(2 * 0.1 * 100) = 4.4721; times (1 + sqrt(0.0005) / 3 + 0.0005 / 9), less 0.1
        (0.1, 0.01, 4.4057),
        # sqrt(2 * 0.05 * 1000) = 10; times (1 + 0.005 / 3 + 0.000025 / 9), less 0.05
        (0.05, 0.001, 9.9667),
        (5.0, 0.5, 2.0),  # a checkpoint that takes longer than twice the mean time: that time
    ],
)
def test_the_best_interval_is_dalys(save: float, rate: float, expected: float) -> None:
    assert best_interval(SpotWork(hours=1000, boot=0.1, rate=rate, save=save)) == pytest.approx(
        expected, abs=0.0001
    )


@given(
    st.floats(20, 500), st.floats(0.0005, 0.05), st.floats(0.01, 0.5), st.sampled_from([0.25, 0.5, 2.0, 4.0])
)
def test_no_other_interval_is_much_better(hours: float, rate: float, save: float, factor: float) -> None:
    """Daly's is an approximation, and whole segments are rounded: half a percent is allowed."""
    work = SpotWork(hours=hours, boot=0.1, rate=rate, save=save)
    best = best_interval(work)
    if best is None:
        return
    chosen, other = (outlook(replace(work, interval=each)) for each in (best, best * factor))
    assert chosen is not None
    assert other is None or chosen.expected <= other.expected * 1.005 + save


def test_work_that_needs_no_checkpoint_is_not_told_to_make_one() -> None:
    assert best_interval(SpotWork(hours=1, boot=0.1, rate=0.0001, save=0.1)) is None
    assert best_interval(SpotWork(hours=100, boot=0.1, rate=0, save=0.1)) is None
