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

from gpucloud_pricing.gamma import gamma_percentile

HOPELESS = 20.0
"""With this many expected interruptions between two checkpoints, work practically never ends."""
_RUNS = 2000
_DRAWS = 50_000
"""The number of simulations for a percentile: accurate to some percent, in some hundredths of a second."""
_MANY = 1000
"""From this many interruptions on, a percentile is that of the limit instead of a simulation."""
_SEGMENTS = 100
"""The segments that the limit tells apart; with more, its range is too wide rather than too close."""
_SEED = 20260105


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotWork:
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
    """The average course of work. All times in hours, with boots and checkpoints.

    Attributes:
        expected: the average duration.
        interruptions: the average number of interruptions.
        lost: the average time of repeated work and repeated boots.
    """

    expected: float
    interruptions: float
    lost: float


def outlook(work: SpotWork) -> Outlook | None:
    """The outlook of work; ``None`` if it practically never ends.

    A stretch of L hours without interruption takes (e^(rL) - 1) / r on average. The first segment needs one
    with its boot; each later one takes e^(rR) (e^(rs) - 1) / r, with boots of R and segments of s hours
    (Daly's equation for the total wall clock time).
    """
    rate, boot, segment = work.rate, work.boot, work.segment
    if rate <= 0:
        return Outlook(expected=work.undisturbed, interruptions=0.0, lost=0.0)
    if rate * (boot + segment) > HOPELESS:
        return None
    first = math.expm1(rate * (boot + segment)) / rate
    later = math.exp(rate * boot) * math.expm1(rate * segment) / rate
    expected = first + (work.segments - 1) * later
    return Outlook(expected=expected, interruptions=rate * expected, lost=expected - work.undisturbed)


def percentile(work: SpotWork, share: float) -> float | None:
    """The duration that a share of all runs does not exceed; ``None`` if the work practically never ends.

    Exact where that share is not interrupted at all, otherwise by a simulation with a fixed seed. With very
    many interruptions the duration of each segment is nearly exponential (A. Renyi's limit of geometric
    sums), and that of all segments has a gamma distribution.
    """
    seen = outlook(work)
    if seen is None:
        return None
    if math.exp(-work.rate * work.undisturbed) >= share:
        return work.undisturbed
    if seen.interruptions > _MANY:
        shape = min(work.segments, _SEGMENTS)
        return seen.expected * gamma_percentile(shape, share) / shape
    runs = max(100, min(_RUNS, int(_DRAWS / (1 + seen.interruptions))))
    chance = random.Random(_SEED)  # noqa: S311  (a simulation, to be the same each time)
    took = sorted(simulate(work, chance) for _ in range(runs))
    return took[int(runs * share)]


def simulate(work: SpotWork, chance: random.Random) -> float:
    """The duration of one simulated run: each machine works until it is interrupted, and the next resumes."""
    took, left = 0.0, work.segments
    rate, boot, segment = work.rate, work.boot, work.segment
    while True:
        until = chance.expovariate(rate)
        done = int((until - boot) / segment) if until > boot else 0
        if done >= left:
            return took + boot + left * segment
        took += until
        left -= done


def best_interval(work: SpotWork) -> float | None:
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
