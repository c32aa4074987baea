"""Why offers were turned down, and which demand to relax."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from gpucloud_pricing.values import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule's reason against an offer."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An offer that was turned down, with every rule's reason."""

    offer: Offer
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """What dropping one demand alone would bring: so many offers, the best of them."""

    rule: str
    offers: int
    best: Offer


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Every offer of the market, matched or turned down.

    ``refused`` is sorted: ``models`` that were asked for first, then fewest reasons, then in the order of
    choosing.
    """

    models: frozenset[str] = frozenset()
    matched: tuple[Offer, ...]
    refused: tuple[Refusal, ...]

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many offers each rule turned down, the strictest rule first."""
        counts = Counter(reason.rule for refusal in self.refused for reason in refusal.reasons)
        return dict(counts.most_common())

    @cached_property
    def relaxations(self) -> tuple[Relaxation, ...]:
        """What dropping one demand alone would bring, the cheapest find first.

        What is not for sale, and another GPU model, is no relaxation of what was asked for.
        """
        alone: dict[str, list[Offer]] = {}
        for refusal in self.refused:
            wanted = not self.models or refusal.offer.gpu_model in self.models
            match refusal.reasons:
                case [reason] if wanted:
                    alone.setdefault(reason.rule, []).append(refusal.offer)
                case _:
                    break
        return tuple(
            Relaxation(rule=rule, offers=len(offers), best=offers[0])
            for rule, offers in alone.items()
            if rule != "status" and offers[0].price_usd is not None
        )
