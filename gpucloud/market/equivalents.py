"""Other GPUs with at least the same memory or speed, and two sizes side by side, with their prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError
from gpucloud.market.catalog import Catalog
from gpucloud_pricing import Demand, GpuRequirement, Market, Offer, Rate, format_requirement
from gpucloud_pricing import work as figures
from gpucloud_pricing.gpus import MAX_COUNT
from gpucloud_pricing.values import number, usd_document
from gpucloud_pricing.work import (
    PERFORMANCE,
    UNITS,
    Equivalent,
    NoFigureError,
    Range,
    UnknownFigureError,
    amount_wanted,
    cards_wanted,
    cheapest_sets,
    doubts_of,
    figure_of,
    range_wanted,
    why_unknown,
)

if TYPE_CHECKING:
    from gpucloud.market.documents import (
        EquivalentDocument,
        EquivalentsDocument,
        MeasureDocument,
        RangeDocument,
        SetDocument,
        SizesDocument,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalents:
    """Machines with at least the demanded amount, the cheapest first.

    Attributes:
        by: the measure: ``memory``, ``bandwidth``, or a precision.
        amount: the demanded amount.
        equivalents: the fewest machines of each GPU that reach it.
        unknown: the GPUs that were not compared, with the reason: no figure or no price is known.
        rates: the exchange rates behind prices in USD.
    """

    by: str
    amount: Decimal
    equivalents: Sequence[Equivalent]
    unknown: dict[str, str]
    rates: Sequence[Rate]

    @property
    def unit(self) -> str:
        """The unit of :attr:`amount`."""
        return UNITS[self.by]

    def document(self) -> EquivalentsDocument:
        """The fields of ``gpucloud.equivalents/v1``."""
        return {
            "by": self.by,
            "amount": number(self.amount),
            "unit": self.unit,
            "equivalents": [self._document_of(each) for each in self.equivalents],
            "without_figure": list(self.unknown),
            "unknown": self.unknown,
            "rates": [rate.document() for rate in self.rates],
        }

    def _document_of(self, each: Equivalent) -> EquivalentDocument:
        figure = figure_of(each.offer.kind, self.by)
        return {
            **_set_document(each),
            "figure_source": figure.source if figure else None,
            "figure_doubt": figure.doubt if figure else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMeasure:
    """Two sizes by one measure.

    Attributes:
        by: the measure.
        amounts: the amounts of both sizes; between two bounds, where a size of memory is left open.
        unknown: why an amount is not known, by size.
        doubts: why an amount may be wrong, by size.
    """

    by: str
    amounts: tuple[Range | None, Range | None]
    unknown: dict[str, str]
    doubts: dict[str, str]

    @property
    def ratio(self) -> Range | None:
        """The second amount over the first; ``None`` if one of them is not known."""
        first, second = self.amounts
        return None if first is None or second is None else second.over(first)

    def document(self) -> MeasureDocument:
        """Its fields in ``gpucloud.equivalents/v1``."""
        return {
            "by": self.by,
            "unit": UNITS[self.by],
            "amounts": [_range_document(amount) for amount in self.amounts],
            "ratio": _range_document(self.ratio),
            "unknown": self.unknown,
            "doubts": self.doubts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSize:
    """One of two sizes.

    Attributes:
        size: the GPU and its count, in the grammar.
        cards: the makers' names of what it may be.
        sets: the cheapest machines with this many GPUs at each cloud, the cheapest first.
    """

    size: str
    cards: Sequence[str]
    sets: Sequence[Equivalent]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeComparison:
    """Two sizes side by side.

    Attributes:
        sizes: the sizes.
        measures: their amounts by each measure.
        rates: the exchange rates behind prices in USD.
    """

    sizes: tuple[ComparedSize, ComparedSize]
    measures: Sequence[ComparedMeasure]
    rates: Sequence[Rate]

    @property
    def price_ratio(self) -> Decimal | None:
        """The cheapest price of the second over that of the first; ``None`` if one of them is not known."""
        first, second = (each.sets[0].per_hour if each.sets else None for each in self.sizes)
        return None if first is None or second is None else second / first

    def document(self) -> SizesDocument:
        """The fields of ``gpucloud.equivalents/v1``."""
        return {
            "sizes": [
                {
                    "size": each.size,
                    "cards": list(each.cards),
                    "offers": [_set_document(found) for found in each.sets],
                }
                for each in self.sizes
            ],
            "measures": [each.document() for each in self.measures],
            "price_ratio": None if self.price_ratio is None else float(round(self.price_ratio, 3)),
            "rates": [rate.document() for rate in self.rates],
        }


def equivalents(catalog: Catalog, demand: Demand, by: str, today: date) -> Equivalents:
    """The cheapest machines of each GPU that reach the amount of a demand's GPUs.

    Args:
        catalog: the market.
        demand: has one GPU with a count, or types with the same GPUs; with both, the machines are of those
            types.
        by: the measure: ``memory``, ``bandwidth``, or a precision.
        today: the date for the age of prices and for retired types.

    Raises:
        UsageError: the amount of the demand is not known.
    """
    if by not in PERFORMANCE:
        raise UsageError(f"--by: {by!r} is not allowed; allowed: {', '.join(PERFORMANCE)}")
    market = catalog.market_for(demand)
    if demand.gpus:
        flag, requirements, anything = "--gpu", demand.gpus, replace(demand, gpus=())
    else:
        flag, requirements, anything = (
            "--instance-type",
            _gpus_of(market, demand),
            replace(demand, instance_types=()),
        )
    if len(requirements) != 1:
        raise UsageError(f"{flag}: specify one GPU and a count: --gpu A100-80GB:8")
    try:
        wanted = amount_wanted(requirements[0], by)
    except NoFigureError as error:
        raise UsageError(f"{flag}: {error}") from None
    offers = market.search(anything, today)
    found = figures.equivalents(offers, wanted, by)
    return Equivalents(
        by=by,
        amount=wanted,
        equivalents=found,
        unknown=dict(sorted(_not_compared(offers, found, by))),
        rates=market.rates_of(each.offer for each in found),
    )


def compare_sizes(catalog: Catalog, demand: Demand, today: date) -> SizeComparison:
    """Two sizes by each measure, and the cheapest machines that have them.

    Args:
        catalog: the market.
        demand: has two GPUs, each with a count.
        today: the date for the age of prices and for retired types.

    Raises:
        UsageError: the demand has not two GPUs with a count.
    """
    if len(demand.gpus) != 2:
        raise UsageError("specify two sizes to compare, each one GPU and a count: A100-80GB:8 H100:4")
    try:
        measures = [_compared(demand.gpus, by) for by in PERFORMANCE]
    except NoFigureError as error:
        raise UsageError(str(error)) from None
    market = catalog.market_for(demand)
    sizes = tuple(
        ComparedSize(
            size=format_requirement(requirement),
            cards=[card.name for card, _ in cards_wanted(requirement) if card],
            sets=cheapest_sets(market.search(_any_count(demand, requirement), today), requirement.min_count),
        )
        for requirement in demand.gpus
    )
    return SizeComparison(
        sizes=(sizes[0], sizes[1]),
        measures=measures,
        rates=market.rates_of(found.offer for each in sizes for found in each.sets),
    )


def _compared(requirements: Sequence[GpuRequirement], by: str) -> ComparedMeasure:
    amounts: list[Range | None] = []
    unknown: dict[str, str] = {}
    for requirement in requirements:
        try:
            amounts.append(range_wanted(requirement, by))
        except UnknownFigureError as error:
            amounts.append(None)
            unknown[format_requirement(requirement)] = error.reason
    doubts = {
        format_requirement(requirement): "; ".join(reasons)
        for requirement in requirements
        if (reasons := doubts_of(requirement, by))
    }
    return ComparedMeasure(by=by, amounts=(amounts[0], amounts[1]), unknown=unknown, doubts=doubts)


def _gpus_of(market: Market, demand: Demand) -> tuple[GpuRequirement, ...]:
    """The GPUs of the types that a demand names, each once; none, if it names no type."""
    kinds = market.types_named(demand) if demand.instance_types else []
    sizes = dict.fromkeys((kind.gpu_model, kind.gpu_memory_gib, kind.gpu_count) for kind in kinds)
    return tuple(
        GpuRequirement(
            model=model, min_memory_gib=memory, max_memory_gib=memory, min_count=count, max_count=count
        )
        for model, memory, count in sizes
    )


def _any_count(demand: Demand, requirement: GpuRequirement) -> Demand:
    """The demand for one of its GPUs in machines of any size: several may have the count together."""
    least = min(requirement.min_count, Decimal(1))
    return replace(demand, gpus=(replace(requirement, min_count=least, max_count=Decimal(MAX_COUNT)),))


def _not_compared(offers: Sequence[Offer], found: Sequence[Equivalent], by: str) -> Iterator[tuple[str, str]]:
    compared = {each.offer.gpu_model for each in found}
    for offer in offers:
        if offer.gpu_model not in compared:
            known = figure_of(offer.kind, by)
            yield (
                offer.gpu_model,
                "no price without a flag is known" if known else why_unknown(offer.kind, by),
            )


def _set_document(each: Equivalent) -> SetDocument:
    return {
        "gpus": float(round(each.gpus, 3)),
        "nodes": each.nodes,
        "per_hour_usd": usd_document(each.per_hour),
        "offer": each.offer.document(),
    }


def _range_document(amount: Range | None) -> RangeDocument | None:
    if amount is None:
        return None
    return {"low": float(round(amount.low, 4)), "high": float(round(amount.high, 4))}
