"""Leaves out the offers that the policy forbids. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpucloud.journal.policy import Rules
from gpucloud.planning.plan import Candidate
from gpucloud.policy.rules import against_machine, against_payment, nothing_left
from gpucloud_pricing import Market
from gpucloud_pricing.purchases import Purchase


def permitted(
    rules: Rules,
    market: Market,
    candidates: Iterable[Candidate],
    purchases: Sequence[Purchase] | None = None,
) -> tuple[list[Candidate], Counter[str]]:
    """The candidates that the policy allows, whatever their price is today.

    Args:
        rules: the rules of the policy.
        market: for the groups of regions.
        candidates: those that match.
        purchases: the ways of paying that are left; ``None`` where nothing is launched yet. Capacity that is
            held is searched for among on-demand offers.

    Returns:
        The candidates, and how many others each rule has removed.

    Raises:
        PolicyError: it allows none.
    """
    kept: list[Candidate] = []
    removed: Counter[str] = Counter()
    for each in candidates:
        rule = against_machine(rules, market, each)
        if rule is None and purchases is not None and not _may_hold(each, purchases):
            rule = against_payment(rules, str(each.purchase), None)
        if rule is None:
            kept.append(each)
        else:
            removed[rule] += 1
    if not kept:
        raise nothing_left(rules, removed)
    return kept, removed


def _may_hold(candidate: Candidate, purchases: Sequence[Purchase]) -> bool:
    """Whether held capacity is searched for among such candidates: it has no price of its own."""
    ways = (purchase.kind for purchase in purchases)
    return any(way.paid_already and way.listed_as == candidate.purchase for way in ways)
