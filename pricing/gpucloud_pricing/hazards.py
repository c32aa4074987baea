"""How often spot machines are interrupted: a rate per hour with its two bounds, from what is known.

Nobody publishes this rate. It is derived from a cloud's band or from the user's own history, and each
uncertain step has a low and a high reading; the middle is between them, and is no better known than they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpucloud_pricing.gamma import gamma_percentile
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Experience, Interruption

MONTH = float(HOURS_PER_MONTH)
ENOUGH_INTERRUPTIONS = 3
ENOUGH_HOURS = 2 * MONTH
"""An own history is used from three interruptions on, or from two machine-months.

With three, the bounds below are a factor of 6.5 apart: closer than those of a band. With none in two months,
the high bound is 0.96 a month, the upper end of the widest band.
"""
_TAIL = 0.05
"""The probability beyond each bound of the rate of an own history."""


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
