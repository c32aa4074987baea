"""The effect of interruptions on the usage of a spot offer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.market import Market
from gpucloud_pricing.parts import cost_of_hours, known_total
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.usage import Usage
from gpucloud_pricing.values import Experience, Interruption, Offer

if TYPE_CHECKING:
    from gpucloud_pricing.documents import BandDocument, OwnHistoryDocument, SpotDocument, SpreadDocument
    from gpucloud_pricing.hazards import Spread
    from gpucloud_pricing.spot import Outlook

_TAIL = 0.05
"""The share of cases outside of the range on each side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotEstimate:
    """The effect of interruptions on a usage. Times in hours, costs in USD and with the known parts only.

    Attributes:
        evidence: what the rate is derived from: a cloud's band, or the user's own history.
        hazard: interruptions per hour, of any node; see :mod:`gpucloud_pricing.hazards`.
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
    from gpucloud_pricing.hazards import chances, hazard
    from gpucloud_pricing.spot import SpotWork, best_interval, outlook, percentile

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
    from gpucloud_pricing.hazards import is_enough

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
