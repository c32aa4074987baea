"""How the figures of a comparison are computed: those of its estimates, and those of the user's own terms."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.estimate import Estimate
from gpucloud_pricing.figures import Figure, FigureRow, figures, number_text

if TYPE_CHECKING:
    from gpucloud.costs.comparison import Comparison


def comparison_figures(comparison: Comparison, estimate: Estimate) -> list[Figure]:
    """The figures of one way of paying; see :meth:`Comparison.figures`."""
    return [
        *figures(comparison.market, estimate),
        *_after_credit(comparison, estimate),
        *_present_value(comparison, estimate),
        *_unit_cost(comparison, estimate),
        *_tokens(comparison, estimate),
    ]


def _after_credit(comparison: Comparison, estimate: Estimate) -> Iterator[Figure]:
    left = comparison.after_credit(estimate)
    if left is None:
        return
    from gpucloud.market.discounts import SOURCE

    owed = comparison.credit[estimate.offer.cloud]
    row = FigureRow(what="credits", amount=owed, currency="USD", as_of=None, source=SOURCE)
    yield Figure(part="after_credit", amount=left, formula="expected_total less credits", rows=(row,))


def _present_value(comparison: Comparison, estimate: Estimate) -> Iterator[Figure]:
    worth = comparison.present_value(estimate)
    if worth is None or comparison.cost_of_capital is None:
        return
    rate = f"{comparison.cost_of_capital:f}"
    formula = f"each payment / (1 + {rate}) ^ years until it is due; hours are due as they are used"
    yield Figure(part="present_value", amount=worth, formula=formula, rows=())


def _unit_cost(comparison: Comparison, estimate: Estimate) -> Iterator[Figure]:
    """The cost of work, where that was asked for."""
    from gpucloud_pricing.work import UNITS, amount_of, figure_of

    cost, kind, measure = comparison.unit_cost(estimate), estimate.offer.kind, comparison.measure
    if measure is None or cost is None:
        return
    amount, unit = amount_of(kind, measure) or Decimal(0), UNITS[measure]
    basis = figure_of(kind, measure)
    row = FigureRow(
        what=f"{kind.name}, {measure}",
        amount=amount,
        currency=unit,
        as_of=None,
        source="; ".join(filter(None, (basis.source, basis.doubt))) if basis else "unknown",
    )
    hours = None if comparison.assumed else comparison.hours_on(estimate.offer)
    hour = "an hour of running" if hours is None else f"expected_total / {number_text(hours)} h"
    formula = f"{hour} / ({comparison.usage.nodes} x {amount.normalize():f} {unit})"
    yield Figure(part="unit_cost", amount=cost, formula=formula, rows=(row,), unit="USD/h")


def _tokens(comparison: Comparison, estimate: Estimate) -> Iterator[Figure]:
    """The hours, and the cost of an epoch and of a million tokens."""
    tokens = comparison.tokens
    if tokens is None or estimate.cost is None:
        return
    work = f"{tokens.per_epoch:f} tokens x {tokens.epochs:f} / ({tokens.per_second:f} per second x 3600 s)"
    yield Figure(part="hours", amount=tokens.hours, formula=work, rows=(), unit="h")
    total = "total" if estimate.expected_total is None else "expected_total"
    epochs, millions = (f"{each.normalize():f}" for each in (tokens.epochs, tokens.millions))
    epoch, million = comparison.per_epoch(estimate), comparison.per_million_tokens(estimate)
    yield Figure(part="per_epoch", amount=epoch, formula=f"{total} / {epochs}", rows=())
    formula = f"{total} / {millions} million tokens"
    yield Figure(part="per_1m_tokens", amount=million, formula=formula, rows=(), unit="USD/1M")
