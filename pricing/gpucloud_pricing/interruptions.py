"""How often spot machines are interrupted, how long work takes on them, and what that does to a usage.

Nobody publishes the rate. It is derived from a cloud's band or from the user's own history, and each
uncertain step has a low and a high reading; the middle is between them, and is no better known than they are.

Interruptions are a Poisson process. After each, a machine boots (which may be interrupted too) and the work
resumes from its last checkpoint; without checkpoints, from its start. The formulas are J. T. Daly's, "A
higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
Systems 22 (2006), 303-312; the first order is J. W. Young's, Communications of the ACM 17 (1974), 530-531.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.gamma import gamma_percentile
from gpucloud_pricing.market import Market
from gpucloud_pricing.purchases import HOURS_PER_MONTH, Purchase
from gpucloud_pricing.terms import Usage, cost_of_hours, known_total
from gpucloud_pricing.values import Experience, Interruption, Offer

if TYPE_CHECKING:
    from gpucloud_pricing.documents import BandDocument, OwnHistoryDocument, SpotDocument, SpreadDocument

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


MONTH = float(HOURS_PER_MONTH)
ENOUGH_INTERRUPTIONS = 3
ENOUGH_HOURS = 2 * MONTH
"""An own history is used from three interruptions on, or from two machine-months.

With three, the bounds below are a factor of 6.5 apart: closer than those of a band. With none in two months,
the high bound is 0.96 a month, the upper end of the widest band.
"""
_TAIL = 0.05
"""The probability beyond each bound: of the rate of an own history, and of a range of durations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A low, a middle and a high value of an uncertain figure."""

    low: float
    middle: float
    high: float

    def times(self, other: Spread) -> Spread:
        """The products: low with low, middle with middle, high with high."""
        return Spread(
            low=self.low * other.low, middle=self.middle * other.middle, high=self.high * other.high
        )


def hazard(evidence: Interruption | Experience, hours: float, nodes: int) -> Spread:
    """The interruptions per hour of work on some machines.

    Args:
        evidence: a cloud's band, or the user's own history, of one machine.
        hours: the duration of the work without interruptions.
        nodes: the number of machines; the loss of one interrupts the work.
    """
    one = band_rate(evidence, hours) if isinstance(evidence, Interruption) else own_rate(evidence)
    return one.times(any_of(nodes))


def band_rate(band: Interruption, hours: float) -> Spread:
    """The interruptions per hour of one machine, from a cloud's band.

    AWS describes the Spot Instance Advisor's figure as the rate at which capacity was reclaimed during the
    trailing month (quoted in github.com/grailbio/base, cloud/spotadvisor; Alibaba Cloud's DescribeSpotAdvice
    has an average release rate of 30 days). Neither says of what: how long the machines behind it ran is
    unpublished. A share p of machines that ran T hours each is p / T interruptions per hour:

    - low: the lower end of the band, of machines that all ran the whole month, T = 730 h;
    - high: the upper end, of machines that ran no longer than this work, T = min(hours, 730 h);
    - middle: the middle of the band, T = the geometric mean of these two.

    Doubt: even the high reading is no guarantee. The band above 20 % has no upper end (100 % is taken, as in
    the Advisor's file), and V100 machines, which are in it, were measured in 2022 and 2023 to be lost after
    0.7 to 17 hours on average (:mod:`gpucloud_pricing.spot_traces`).
    """
    run = min(hours, MONTH)
    return Spread(
        low=band.low / 100 / MONTH,
        middle=(band.low + band.high) / 200 / math.sqrt(run * MONTH),
        high=band.high / 100 / run,
    )


def any_of(nodes: int) -> Spread:
    """The factor from the rate of one machine to the rate at which any of several is lost.

    It is 1 if they are always lost together, and the number of machines if each loss is independent; no
    correlation gives less or more (Boole's inequality, and the loss of a given one is a loss of any). Losses
    of one type and zone come together: 92 % of joint interruptions were within three minutes
    (:mod:`gpucloud_pricing.spot_traces`), but how many are joint is unpublished. Low is the former, high the
    latter, and middle their geometric mean.
    """
    return Spread(low=1.0, middle=math.sqrt(nodes), high=float(nodes))


def is_enough(experience: Experience) -> bool:
    """Whether an own history says more than a band; see :data:`ENOUGH_HOURS`."""
    return experience.interruptions >= ENOUGH_INTERRUPTIONS or experience.hours >= ENOUGH_HOURS


def own_rate(experience: Experience) -> Spread:
    """The interruptions per hour of one machine, from k interruptions in H machine-hours.

    The posterior of a Poisson rate with Jeffreys' prior is the gamma distribution with shape k + 1/2 and rate
    H (A. Gelman et al., Bayesian Data Analysis, 3rd edition, section 2.6, for the gamma-Poisson model): the
    middle is its mean, (k + 1/2) / H, the bounds are its 5th and 95th percentile. Machines that were lost
    together count one by one, so that the bounds are too close if boxes had several nodes.
    """
    shape = experience.interruptions + 0.5
    low, high = (gamma_percentile(shape, share) / experience.hours for share in (_TAIL, 1 - _TAIL))
    return Spread(low=low, middle=shape / experience.hours, high=high)


def chances(rates: Spread, hours: float) -> Spread:
    """The probability of at least one interruption within some hours: 1 - e^(-rate x hours)."""
    low, middle, high = (-math.expm1(-rate * hours) for rate in (rates.low, rates.middle, rates.high))
    return Spread(low=low, middle=middle, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotEstimate:
    """The effect of interruptions on a usage. Times in hours, costs in USD and with the known parts only.

    Attributes:
        evidence: what the rate is derived from: a cloud's band, or the user's own history.
        hazard: interruptions per hour, of any node; see :mod:`gpucloud_pricing.interruptions`.
        chance: the probability of at least one interruption.
        outlook: the average course at the middle rate.
        low: the duration that one of twenty cases does not exceed, at the low rate.
        high: the duration that one of twenty cases exceeds, at the high rate, and at least the average at
            that rate; ``None`` if the work practically never ends.
        low_total, expected_total, high_total: the costs of these durations, none below the undisturbed cost.
        best_interval: the best hours of work between checkpoints at the middle rate; ``None`` if checkpoints
            do not pay off.
        dearer: whether on demand is expected to cost less; ``None`` if that price is unknown.
    """

    evidence: Interruption | Experience
    hazard: Spread
    chance: Spread
    outlook: Outlook
    low: float
    high: float | None
    low_total: Decimal
    expected_total: Decimal
    high_total: Decimal | None
    best_interval: float | None
    dearer: bool | None

    def document(self) -> SpotDocument:
        """For JSON."""
        seen, best = self.outlook, self.best_interval
        return {
            "hours": {
                "low": round(self.low, 2),
                "expected": round(seen.expected, 2),
                "high": None if self.high is None else round(self.high, 2),
            },
            "interruptions": round(seen.interruptions, 3),
            "chance_percent": _spread_document(self.chance, factor=100, digits=2),
            "interruptions_per_hour": _spread_document(self.hazard, factor=1, digits=8),
            "evidence": evidence_document(self.evidence),
            "lost_hours": round(seen.lost, 2),
            "best_checkpoint_interval_s": None if best is None else round(best * 3600),
            "dearer_than_on_demand": self.dearer,
        }


def spot_estimate(
    market: Market, offer: Offer, usage: Usage, on_demand_usd: Decimal | None, unknown: dict[str, str]
) -> SpotEstimate | None:
    """The effect of interruptions; the loss of a node restarts all nodes. ``None`` if it is unknown."""
    if offer.price_usd is None:
        return None
    evidence = evidence_of(offer)
    if evidence is None:
        unknown["expected_total"] = "no interruption rate is known"
        return None
    calm = SpotWork(
        hours=float(usage.hours),
        boot=usage.boot_s / 3600,
        rate=0.0,
        interval=None if usage.checkpoint_s is None else usage.checkpoint_s / 3600,
        save=usage.save_s / 3600,
    )
    rates = hazard(evidence, calm.undisturbed, usage.nodes)
    gentle, middle, harsh = (replace(calm, rate=rate) for rate in (rates.low, rates.middle, rates.high))
    seen, worst = outlook(middle), outlook(harsh)
    if seen is None:
        unknown["expected_total"] = "interrupted so often that the work practically never ends"
        return None
    low = min(percentile(gentle, _TAIL) or calm.undisturbed, seen.expected)
    late = percentile(harsh, 1 - _TAIL)
    high = None if late is None or worst is None else max(late, worst.expected)
    if high is None:
        unknown["high_total"] = "at the high rate of interruptions the work practically never ends"
    sure = None
    if on_demand_usd is not None:
        steady = replace(offer, purchase=Purchase.ON_DEMAND.value, price_usd=on_demand_usd)
        sure = _cost(market, steady, usage, calm.hours + calm.boot)
    return SpotEstimate(
        evidence=evidence,
        hazard=rates,
        chance=chances(rates, calm.undisturbed),
        outlook=seen,
        low=low,
        high=high,
        low_total=_cost(market, offer, usage, low),
        expected_total=_cost(market, offer, usage, seen.expected),
        high_total=None if high is None else _cost(market, offer, usage, high),
        best_interval=best_interval(middle),
        dearer=None if sure is None else _cost(market, offer, usage, seen.expected) > sure,
    )


def evidence_of(offer: Offer) -> Interruption | Experience | None:
    """What an offer's rate of interruptions is derived from: an own history if long enough, or the band."""
    own = offer.experience
    return own if own is not None and is_enough(own) else offer.interruption


def evidence_document(evidence: Interruption | Experience) -> BandDocument | OwnHistoryDocument:
    """The evidence for JSON."""
    if isinstance(evidence, Interruption):
        return {"kind": "band", **evidence.document()}
    return {
        "kind": "own_history",
        "machine_hours": round(evidence.hours, 1),
        "interruptions": evidence.interruptions,
        "since": evidence.since.isoformat(),
        "until": evidence.until.isoformat(),
    }


def _cost(market: Market, offer: Offer, usage: Usage, hours: float) -> Decimal:
    """The cost of a duration, and at least that of the usage without interruptions.

    Each start is billed for the cloud's minimum, which a short duration may be below.
    """
    return max(cost_of_hours(market, offer, usage, hours), known_total(market, offer, usage))


def _spread_document(spread: Spread, *, factor: int, digits: int) -> SpreadDocument:
    low, middle, high = (round(rate * factor, digits) for rate in (spread.low, spread.middle, spread.high))
    return {"low": low, "middle": middle, "high": high}
