"""Other GPUs with at least the same memory or speed, and their prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from gpucloud.errors import UsageError
from gpucloud.market.catalog import Catalog
from gpucloud_pricing import Demand, Rate
from gpucloud_pricing import work as figures
from gpucloud_pricing.values import number, usd_document
from gpucloud_pricing.work import PRECISIONS, UNITS, Equivalent, NoFigureError, amount_wanted, source_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalents:
    """Machines with at least the demanded amount, the cheapest first.

    Attributes:
        by: the measure: ``memory``, or a precision.
        amount: the demanded amount.
        equivalents: the fewest machines of each GPU that reach it.
        without_figure: the GPUs that were not compared, because a figure or a price is unknown.
        rates: the exchange rates behind prices in USD.
    """

    by: str
    amount: Decimal
    equivalents: Sequence[Equivalent]
    without_figure: Sequence[str]
    rates: Sequence[Rate]

    @property
    def unit(self) -> str:
        """The unit of :attr:`amount`."""
        return UNITS[self.by]

    def document(self) -> dict[str, Any]:
        """The fields of ``gpucloud.equivalents/v1``."""
        return {
            "by": self.by,
            "amount": number(self.amount),
            "unit": self.unit,
            "equivalents": [
                {
                    "gpus": float(round(each.gpus, 3)),
                    "nodes": each.nodes,
                    "per_hour_usd": usd_document(each.per_hour),
                    "figure_source": source_of(each.offer.gpu_model, self.by),
                    "offer": each.offer.document(),
                }
                for each in self.equivalents
            ],
            "without_figure": self.without_figure,
            "rates": [rate.document() for rate in self.rates],
        }


def equivalents(catalog: Catalog, demand: Demand, by: str, today: date) -> Equivalents:
    """The cheapest machines of each GPU that reach the amount of a demand's GPUs.

    Args:
        catalog: the market.
        demand: has one GPU with a count.
        by: the measure: ``memory``, or a precision.
        today: the date for the age of prices and for retired types.

    Raises:
        UsageError: the amount of the demand is not known.
    """
    if by not in {"memory", *PRECISIONS}:
        raise UsageError(f"--by: {by!r} is not allowed; allowed: memory, {', '.join(PRECISIONS)}")
    if len(demand.gpus) != 1:
        raise UsageError("--gpu: specify one GPU and a count: A100-80GB:8")
    try:
        wanted = amount_wanted(demand.gpus[0], by)
    except NoFigureError as error:
        raise UsageError(f"--gpu: {error}") from None
    anything = replace(demand, gpus=())
    market = catalog.market_for(anything)
    offers = market.search(anything, today)
    found = figures.equivalents(offers, wanted, by)
    return Equivalents(
        by=by,
        amount=wanted,
        equivalents=found,
        without_figure=sorted({o.gpu_model for o in offers} - {each.offer.gpu_model for each in found}),
        rates=market.rates_of(each.offer for each in found),
    )
