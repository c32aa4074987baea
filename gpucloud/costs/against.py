"""Holds compared costs against a budget, and against those of another spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.errors import PriceError
from gpucloud.market.cells import paid_text
from gpucloud_pricing.estimate import Estimate

if TYPE_CHECKING:
    from gpucloud.costs.comparison import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The lowest cost of another spec and of this one, in USD.

    Attributes:
        before: of the other spec.
        after: of this one.
        without: the parts that both leave out, as their prices are unknown.
    """

    before: Decimal
    after: Decimal
    without: Sequence[str]


class IncomparableError(ValueError):
    """Two costs that do not have the same parts; names what is missing."""


def over_budget(comparison: Comparison) -> PriceError | None:
    """Why the budget does not hold; ``None`` if there is no budget, or an offer is shown to be within it.

    What counts is the expected total after credits of the offers that can be launched.
    """
    budget = comparison.budget
    if budget is None:
        return None
    costs = [
        (each.rank, due, each) for each in comparison.launchable if (due := comparison.due(each)) is not None
    ]
    within = [(rank, each) for rank, due, each in costs if due <= budget]
    if any(rank == 0 for rank, _ in within):
        return None
    if within:
        _, first = within[0]
        return PriceError(
            f"the budget cannot be shown to hold: the price of {' and '.join(first.missing)} "
            f"is not known ({_paid_where(first)})",
            hint="other regions, or `gpucloud prices refresh`",
        )
    if not costs:
        return PriceError(
            "no offer that can be launched has a known cost to compare with the budget; "
            f"unknown: {_unknown_costs(comparison)}"
        )
    rank, due, cheapest = min(costs, key=lambda each: each[:2])
    bound = "at least " if rank else ""
    credit = " after credits" if comparison.after_credit(cheapest) is not None else ""
    return PriceError(
        f"the cheapest way is expected to cost {bound}{due:.2f} USD{credit} ({_paid_where(cheapest)}), "
        f"the budget is {budget:f} USD",
        hint="less work, other ways to pay, or a larger --budget",
    )


def difference(before: Comparison, after: Comparison) -> Difference:
    """The lowest cost of another spec and that of this one.

    Raises:
        IncomparableError: a part of one of them is unknown, and known of the other; or a whole cost is.
    """
    lowest: list[Estimate] = []
    for which, one in (("the other spec", before), ("this spec", after)):
        if one.best is None:
            raise IncomparableError(f"{which} has no known cost: {_unknown_costs(one)}")
        lowest.append(one.best)
    was, now = lowest
    for which, found, other in (("the other spec", was, now), ("this spec", now, was)):
        if only := [name for name in found.missing if name not in other.missing]:
            raise IncomparableError(
                f"the price of {' and '.join(only)} of {which} is not known ({_paid_where(found)}), "
                "so that the two costs do not have the same parts"
            )
    if was.expected_total is None or now.expected_total is None:
        raise AssertionError("the lowest cost is a known one")
    return Difference(before=was.expected_total, after=now.expected_total, without=now.missing)


def more_than(before: Comparison, estimate: Estimate) -> Decimal | None:
    """The expected cost of one way of paying less the lowest of another spec, in USD.

    ``None`` where one of them is not known, or they do not have the same known parts.
    """
    best = before.best
    if best is None or set(best.missing) != set(estimate.missing):
        return None
    if best.expected_total is None or estimate.expected_total is None:
        return None
    return estimate.expected_total - best.expected_total


def _unknown_costs(comparison: Comparison) -> str:
    """What is missing for the costs of the offers that could be launched."""
    reasons = {
        f"{each.unknown.get(name, name)} ({_paid_where(each)})"
        for each in comparison.estimates
        if not each.offer.to_buy
        for name in each.missing
    }
    return "; ".join(sorted(reasons)) or "each offer is flagged or must be bought first"


def _paid_where(estimate: Estimate) -> str:
    offer = estimate.offer
    return f"{offer.cloud} {offer.region} {paid_text(offer)}"
