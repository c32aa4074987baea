"""Why offers were refused, and which requirement to relax."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from gpucloud_pricing import rules
from gpucloud_pricing.demand import Demand
from gpucloud_pricing.values import Offer

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule's reason against an offer."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refused offer, with the reason of every rule."""

    offer: Offer
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The number of offers without one requirement, and the best of them."""

    rule: str
    offers: int
    best: Offer


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Every offer of the market, matched or refused.

    Attributes:
        matched: the offers that match, in the order of choice.
        refused: the others: the requested models or types first, then by the number of reasons, then in the
            order of choice.
        near: how many of the refused offers have a requested model or type.
        other_counts: the counts that GPUs come in, by GPU, for each requested one that no type has in the
            requested count; empty counts if no type has it at all.
        asked_counts: the counts that were requested of these, the lowest of a range.
    """

    matched: tuple[Offer, ...]
    refused: tuple[Refusal, ...]
    near: int
    other_counts: Mapping[str, tuple[Decimal, ...]] = field(default_factory=dict[str, tuple[Decimal, ...]])
    asked_counts: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many offers each rule refused, the strictest rule first."""
        counts = Counter(reason.rule for refusal in self.refused for reason in refusal.reasons)
        return dict(counts.most_common())

    @cached_property
    def relaxations(self) -> tuple[Relaxation, ...]:
        """The effect of dropping one requirement, the cheapest result first.

        Types that are not for sale and other GPU models or types are no relaxation.
        """
        alone: dict[str, list[Offer]] = {}
        for refusal in self.refused[: self.near]:
            match refusal.reasons:
                case [reason]:
                    alone.setdefault(reason.rule, []).append(refusal.offer)
                case _:
                    break
        return tuple(
            Relaxation(rule=rule, offers=len(offers), best=offers[0])
            for rule, offers in alone.items()
            if rule != "status" and offers[0].price_usd is not None
        )


def reasons_by(
    table: Mapping[str, Callable[[Demand, T], str | None]], demand: Demand, subject: T
) -> list[Reason]:
    """What the rules of a table have against a type or a place."""
    told = ((name, rule(demand, subject)) for name, rule in table.items())
    return [Reason(rule=name, text=text) for name, text in told if text]


def reasons_of_offer(demand: Demand, offer: Offer, today: date) -> list[Reason]:
    """What stands against an offer's way of paying, price and age."""
    told = {
        "purchase": rules.purchase(demand, offer),
        "max_price": rules.max_price(demand, offer),
        "max_age": rules.max_age(demand, offer, today),
    }
    return [Reason(rule=name, text=text) for name, text in told.items() if text]
