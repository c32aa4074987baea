"""How long work takes on machines that can be taken back: on average, in most cases, and how often to save.

Interruptions are a Poisson process. After each, the machine boots (which may be interrupted too) and the work
goes on from its last checkpoint; without checkpoints, from its beginning. The formulas are J. T. Daly's, "A
higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
Systems 22 (2006), 303-312; the first order is J. W. Young's, Communications of the ACM 17 (1974), 530-531.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from gpucloud_pricing.demand import HOURS_PER_MONTH

HOPELESS = 20.0
"""From so many interruptions that are expected between two checkpoints on, work practically never ends."""
_RUNS = 4000
_DRAWS = 400_000
"""How much is simulated for a range: enough for about one percent, in some hundredths of a second."""
_SEED = 20260105
_TAIL = 0.05
"""What is left out of the 90 % range on each side."""


def rate_per_hour(percent_per_month: float, nodes: int = 1) -> float:
    """Interruptions per hour, from the share of machines that are taken back within a month.

    Args:
        percent_per_month: of one machine, from 0 to below 100.
        nodes: how many there are; the loss of one interrupts all.
    """
    return -math.log1p(-percent_per_month / 100) / float(HOURS_PER_MONTH) * nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work that may be interrupted. All times in hours.

    Attributes:
        hours: of work.
        boot: until work begins or goes on, with what it takes to load a checkpoint.
        rate: interruptions per hour.
        interval: of work between two checkpoints; ``None`` for none at all.
        save: what it takes to write a checkpoint.
    """

    hours: float
    boot: float
    rate: float
    interval: float | None = None
    save: float = 0.0

    @property
    def segments(self) -> int:
        """How many times work is saved; its end counts."""
        return 1 if self.interval is None else max(1, math.ceil(self.hours / self.interval - 1e-9))

    @property
    def segment(self) -> float:
        """How long it must run without an interruption to get from one checkpoint to the next."""
        return self.hours / self.segments + (0.0 if self.interval is None else self.save)

    @property
    def undisturbed(self) -> float:
        """How long it takes where nothing happens."""
        return self.boot + self.segments * self.segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What to expect of work. All times in hours, boots and checkpoints included.

    Attributes:
        expected: how long it takes on average.
        low: nineteen of twenty times it takes longer.
        high: nineteen of twenty times it does not take longer.
        interruptions: how many there are on average.
        lost: what is done in vain on average: repeated work and repeated boots.
    """

    expected: float
    low: float
    high: float
    interruptions: float
    lost: float


def outlook(work: Work) -> Outlook | None:
    """What to expect; ``None`` where it practically never ends.

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
    """How long it takes once: each machine boots, works until it is taken back, and the next goes on."""
    took, left = 0.0, work.segments
    while True:
        until = chance.expovariate(work.rate)
        done = int((until - work.boot) / work.segment) if until > work.boot else 0
        if done >= left:
            return took + work.boot + left * work.segment
        took += until
        left -= done


def best_interval(work: Work) -> float | None:
    """Between which hours of work to save for the shortest time in all; ``None`` where not to save is best.

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
