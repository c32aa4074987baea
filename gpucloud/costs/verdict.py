"""The answer of a comparison in one sentence's facts: what to start now, and what would cost less."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.estimate import Estimate, hourly, place_of
from gpucloud_pricing.purchases import Billed, Purchase
from gpucloud_pricing.rules import caution
from gpucloud_pricing.values import usd_document

if TYPE_CHECKING:
    from gpucloud.costs.comparison import Comparison
    from gpucloud.costs.documents import VerdictDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class CostVerdict:
    """What to start now, and what would cost less.

    Attributes:
        now: the cheapest that can start now and is not interrupted; the cheapest spot, if there is no other.
        cost: its cost, in USD: expected for the hours asked, otherwise per hour. Without unknown parts.
        spot: the cheapest spot, if it is expected to cost less than ``now``.
        saving: how much less, in USD.
        commitment: the shortest commitment in the place of ``now`` that pays; of several, the one that pays
            from the fewest hours a month.
    """

    now: Estimate
    cost: Decimal
    spot: Estimate | None
    saving: Decimal | None
    commitment: Estimate | None

    def document(self) -> VerdictDocument:
        """``verdict`` of ``gpucloud.cost/v1``."""
        spot, commitment = self.spot, self.commitment
        return {
            "now": self.now.document(),
            "cost": usd_document(round(self.cost, 4)),
            "spot": spot.document() if spot else None,
            "saving": None if self.saving is None else usd_document(round(self.saving, 4)),
            "commitment": commitment.document() if commitment else None,
        }


def verdict_of(comparison: Comparison) -> CostVerdict | None:
    """The answer of a comparison; ``None`` if nothing that can be launched has a known cost."""
    steady = _cheapest(each for each in comparison.launchable if not each.offer.paid_as.interruptible)
    spot = _cheapest(each for each in comparison.launchable if each.offer.paid_as.interruptible)
    now = steady or spot
    cost = None if now is None else _cost(comparison, now)
    if now is None or cost is None:
        return None
    saving = None if spot is None or spot is now else _saving(comparison, now, spot)
    return CostVerdict(
        now=now,
        cost=cost,
        spot=spot if saving else None,
        saving=saving,
        commitment=_commitment(comparison, now),
    )


def worth_showing(comparison: Comparison, places: int, *, all_terms: bool) -> list[Estimate]:
    """The estimates by cloud, the cloud with the best first: the best places of each way of paying.

    Args:
        comparison: the comparison.
        places: the number of places for each cloud and way of paying.
        all_terms: with commitments that do not pay (:func:`pays`).
    """
    shown: dict[str, list[Estimate]] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for estimate in comparison.estimates:
        offer = estimate.offer
        way = (offer.cloud, offer.purchase, offer.terms)
        counts[way] = counts.get(way, 0) + 1
        if counts[way] <= places and (all_terms or not offer.to_buy or pays(comparison, estimate)):
            shown.setdefault(offer.cloud, []).append(estimate)
    return [estimate for of_cloud in shown.values() for estimate in of_cloud]


def pays(comparison: Comparison, commitment: Estimate) -> bool:
    """Whether a commitment costs less than on-demand in its place: for the hours asked, or for a month."""
    if comparison.assumed:
        return commitment.break_even_hours is not None
    by_the_hour = _cheapest(
        each
        for each in comparison.estimates
        if each.offer.purchase == Purchase.ON_DEMAND and place_of(each.offer) == place_of(commitment.offer)
    )
    cost = commitment.expected_total
    steady = None if by_the_hour is None else by_the_hour.expected_total
    return cost is not None and steady is not None and cost < steady


def _cheapest(estimates: Iterable[Estimate]) -> Estimate | None:
    """The lowest expected cost; one that lacks parts or has a flag only if there is no other."""

    def key(each: Estimate) -> tuple[int, int, Decimal]:
        return each.rank, caution(each.offer.flags), each.expected_total or Decimal(0)

    return min((each for each in estimates if each.expected_total is not None), key=key, default=None)


def _cost(comparison: Comparison, estimate: Estimate) -> Decimal | None:
    """The expected cost for the hours asked; without hours, the cost per hour."""
    if not comparison.assumed:
        return estimate.expected_total
    return hourly(comparison.market, estimate.offer, comparison.usage)[0]


def _saving(comparison: Comparison, now: Estimate, spot: Estimate) -> Decimal | None:
    """What spot saves; ``None`` if it does not, or if the two lack different parts."""
    was, less = (_cost(comparison, each) for each in (now, spot))
    if was is None or less is None or now.missing != spot.missing:
        return None
    return was - less if was > less else None


def _commitment(comparison: Comparison, now: Estimate) -> Estimate | None:
    """The shortest commitment that pays in the place of an estimate."""
    paying = [
        (each.offer.paid_as.term_hours, each.break_even_hours, each)
        for each in comparison.estimates
        if each.offer.paid_as.billed is Billed.IN_TERMS
        and each.break_even_hours is not None
        and place_of(each.offer) == place_of(now.offer)
    ]
    return min(paying, key=lambda each: each[:2], default=(None, None, None))[2]
