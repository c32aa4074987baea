"""The duration of work on spot machines: on average, in most cases, and the best checkpoint interval.

Interruptions are a Poisson process. After each, a machine boots (which may be interrupted too) and the work
resumes from its last checkpoint; without checkpoints, from its start. The formulas are J. T. Daly's, "A
higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
Systems 22 (2006), 303-312; the first order is J. W. Young's, Communications of the ACM 17 (1974), 530-531.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from gpucloud_pricing.demand import HOURS_PER_MONTH

HOPELESS = 20.0
"""With this many expected interruptions between two checkpoints, work practically never ends."""
_RUNS = 4000
_DRAWS = 400_000
"""The number of simulations for a range: accurate to about one percent, in some hundredths of a second."""
_SEED = 20260105
_TAIL = 0.05
"""The share outside of the 90 % range on each side."""


def rate_per_hour(percent_per_month: float, nodes: int = 1) -> float:
    """Interruptions per hour, from the share of machines that are interrupted within a month.

    Args:
        percent_per_month: of one machine, from 0 to below 100.
        nodes: the number of machines; the loss of one interrupts all.
    """
    return -math.log1p(-percent_per_month / 100) / float(HOURS_PER_MONTH) * nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work that may be interrupted. All times in hours.

    Attributes:
        hours: hours of work.
        boot: the time until work starts or resumes, with the loading of a checkpoint.
        rate: interruptions per hour.
        interval: work between two checkpoints; ``None`` for no checkpoints.
        save: the time to write a checkpoint.
    """

    hours: float
    boot: float
    rate: float
    interval: float | None = None
    save: float = 0.0

    @property
    def segments(self) -> int:
        """The number of checkpoints, with the end of the work."""
        return 1 if self.interval is None else max(1, math.ceil(self.hours / self.interval - 1e-9))

    @property
    def segment(self) -> float:
        """The time without interruption from one checkpoint to the next."""
        return self.hours / self.segments + (0.0 if self.interval is None else self.save)

    @property
    def undisturbed(self) -> float:
        """The duration without interruptions."""
        return self.boot + self.segments * self.segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The expected course of work. All times in hours, with boots and checkpoints.

    Attributes:
        expected: the average duration.
        low: the 5th percentile of the duration.
        high: the 95th percentile of the duration.
        interruptions: the average number of interruptions.
        lost: the average time of repeated work and repeated boots.
    """

    expected: float
    low: float
    high: float
    interruptions: float
    lost: float


def outlook(work: Work) -> Outlook | None:
    """The outlook of work; ``None`` if it practically never ends.

    A stretch of L hours without interruption takes (e^(rL) - 1) / r on average. The first segment needs one
    with its boot; each later one takes e^(rR) (e^(rs) - 1) / r, with boots of R and segments of s hours
    (Daly's equation for the total wall clock time). The range is that of a simulation with a fixed seed.
    """
    rate, boot, segment = work.rate, work.boot, work.segment
    if rate <= 0:
        sure = work.undisturbed
        return Outlook(expected=sure, low=sure, high=sure, interruptions=0.0, lost=0.0)
    if rate * (boot + segment) > HOPELESS:
        return None
    first = math.expm1(rate * (boot + segment)) / rate
    later = math.exp(rate * boot) * math.expm1(rate * segment) / rate
    expected = first + (work.segments - 1) * later
    interruptions = rate * expected
    runs = max(100, min(_RUNS, int(_DRAWS / (1 + interruptions))))
    chance = random.Random(_SEED)  # noqa: S311  (a simulation, to be the same each time)
    took = sorted(simulate(work, chance) for _ in range(runs))
    return Outlook(
        expected=expected,
        low=took[int(runs * _TAIL)],
        high=took[int(runs * (1 - _TAIL))],
        interruptions=interruptions,
        lost=expected - work.undisturbed,
    )


def simulate(work: Work, chance: random.Random) -> float:
    """The duration of one simulated run: each machine works until it is interrupted, and the next resumes."""
    took, left = 0.0, work.segments
    while True:
        until = chance.expovariate(work.rate)
        done = int((until - work.boot) / work.segment) if until > work.boot else 0
        if done >= left:
            return took + work.boot + left * work.segment
        took += until
        left -= done


def best_interval(work: Work) -> float | None:
    """The hours between checkpoints for the shortest duration; ``None`` if no checkpoints are best.

    Daly's higher order: for a checkpoint that takes d hours and a mean time M between interruptions,
    sqrt(2dM) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d, and M where d is 2M or more.
    """
    if work.rate <= 0 or work.save <= 0:
        return None
    mean = 1 / work.rate
    if work.save >= 2 * mean:
        interval = mean
    else:
        part = work.save / (2 * mean)
        interval = math.sqrt(2 * work.save * mean) * (1 + math.sqrt(part) / 3 + part / 9) - work.save
    return interval if interval < work.hours else None
