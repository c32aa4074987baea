"""The performance of GPUs and its price: per GPU, GiB, TB/s of memory bandwidth, TFLOPS; equivalent machines.

Rates and bandwidth are peak figures, rates without sparsity: a program reaches a part of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from gpucloud_pricing.gpu_figures import Card, GpuFigure, card_of
from gpucloud_pricing.gpu_models import BY_NAME, SOURCES
from gpucloud_pricing.gpus import GpuRequirement
from gpucloud_pricing.rules import STALE, caution
from gpucloud_pricing.values import InstanceType, Offer

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
"""Precisions: from TF32 down, the rate of the tensor cores."""

UNITS = {"gpu": "GPU", "memory": "GiB", "bandwidth": "TB/s", **dict.fromkeys(PRECISIONS, "TFLOPS")}
"""The measures of work and their units. Bandwidth is that of the GPUs' memory, in 10^12 bytes per second."""

PERFORMANCE = tuple(measure for measure in UNITS if measure != "gpu")
"""The measures by which two GPUs differ."""


class NoFigureError(ValueError):
    """A demand that cannot be measured."""


class UnknownFigureError(NoFigureError):
    """The figure of a demanded GPU is not known.

    Attributes:
        reason: why.
    """

    def __init__(self, message: str, reason: str):
        super().__init__(f"{message}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """Machines that together reach a demanded amount.

    Attributes:
        offer: the machine.
        gpus: the exact number of its GPUs for the amount.
        nodes: the least number of these machines.
        per_hour: their price together, in USD.
    """

    offer: Offer
    gpus: Decimal
    nodes: int
    per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """An amount between two bounds, both included; equal ones where it is certain."""

    low: Decimal
    high: Decimal

    def over(self, other: Range) -> Range:
        """The lowest and the highest possible ratio to another amount."""
        return Range(low=self.low / other.high, high=self.high / other.low)


def figure_of(kind: InstanceType, measure: str) -> GpuFigure | None:
    """The amount of a measure of one whole GPU of a machine, with its source; ``None`` if it is not known."""
    return _figure(_card_in(kind), kind.gpu_memory_gib, measure)


def why_unknown(kind: InstanceType, measure: str) -> str:
    """Why there is no figure of a machine's GPU."""
    return _why_unknown(_card_in(kind), measure)


def amount_of(kind: InstanceType, measure: str) -> Decimal | None:
    """The amount of a measure of a machine; ``None`` if it is not known."""
    figure = figure_of(kind, measure)
    return None if figure is None else figure.value * kind.gpu_count


def price_for(offer: Offer, measure: str) -> Decimal | None:
    """USD per hour for one unit of a measure; ``None`` if the price or the figure is unknown."""
    amount = amount_of(offer.kind, measure)
    return None if amount is None or offer.price_usd is None else offer.price_usd / amount


def range_wanted(requirement: GpuRequirement, measure: str) -> Range:
    """The amount of a measure of the GPUs in a requirement, over all sizes of memory that it leaves open.

    Of a model in several forms, the usual one counts: see :func:`gpucloud_pricing.gpu_figures.card_of`.

    Raises:
        NoFigureError: the GPU or the count is not specified.
        UnknownFigureError: there is no figure.
    """
    if requirement.model is None or requirement.mig or requirement.min_count != requirement.max_count:
        raise NoFigureError("specify one GPU and a count: A100-80GB:8")
    found: list[Decimal] = []
    for card, memory_gib in cards_wanted(requirement):
        figure = _figure(card, memory_gib, measure)
        if figure is None:
            message = f"no {measure} figure of {requirement.model} is known"
            raise UnknownFigureError(message, _why_unknown(card, measure))
        found.append(figure.value * requirement.min_count)
    return Range(low=min(found), high=max(found))


def amount_wanted(requirement: GpuRequirement, measure: str) -> Decimal:
    """The amount of a measure of the GPUs in a requirement.

    Raises:
        NoFigureError: as for :func:`range_wanted`, or the amount depends on the size of memory, left open.
    """
    amount = range_wanted(requirement, measure)
    if amount.low != amount.high:
        names = " or ".join(
            f"{requirement.model}-{size.normalize():f}GB" for _, size in cards_wanted(requirement)
        )
        raise NoFigureError(f"{requirement.model} has more than one size of memory: {names}")
    return amount.low


def doubts_of(requirement: GpuRequirement, measure: str) -> list[str]:
    """Why the figures behind the amount of a requirement for one model may be wrong."""
    found = (_figure(card, memory_gib, measure) for card, memory_gib in cards_wanted(requirement))
    return list(dict.fromkeys(figure.doubt for figure in found if figure and figure.doubt))


def cards_wanted(requirement: GpuRequirement) -> list[tuple[Card | None, Decimal]]:
    """The cards that a requirement for one model may mean, one per size of memory, with that size in GiB."""
    model = BY_NAME[requirement.model or ""]
    sizes = (requirement.min_memory_gib,) if requirement.min_memory_gib else map(Decimal, model.memory_gib)
    return [(card_of(model.name, size), size) for size in sizes]


def equivalents(offers: Iterable[Offer], wanted: Decimal, measure: str) -> list[Equivalent]:
    """The cheapest way to reach an amount with each GPU, in as few machines as possible; the cheapest first.

    Args:
        offers: the offers; those without a price, or flagged but as stale, are ignored.
        wanted: the amount.
        measure: one of :data:`UNITS`.
    """
    return _best(
        _sets(offers, wanted, measure),
        of=lambda each: (each.offer.gpu_model, each.offer.gpu_memory_gib),
        rank=lambda each: (caution(each.offer.flags), each.nodes, each.per_hour),
    )


def cheapest_sets(offers: Iterable[Offer], gpus: Decimal) -> list[Equivalent]:
    """The cheapest way to have a number of GPUs at each cloud, the cheapest first.

    Machines with exactly this many GPUs together go before larger ones, and few machines before many.

    Args:
        offers: the offers of one GPU; those without a price, or with a flagged one, are ignored.
        gpus: the number of GPUs.
    """
    return _best(
        _sets(offers, gpus, "gpu"),
        of=lambda each: each.offer.cloud,
        rank=lambda each: (
            caution(each.offer.flags),
            each.nodes * each.offer.gpu_count - gpus,
            each.nodes,
            each.per_hour,
        ),
    )


def _sets(offers: Iterable[Offer], wanted: Decimal, measure: str) -> Iterator[Equivalent]:
    for offer in offers:
        figure = figure_of(offer.kind, measure)
        if figure is None or offer.price_usd is None or {*offer.flags} - {STALE}:
            continue
        gpus = wanted / figure.value
        nodes = math.ceil(gpus / offer.gpu_count)
        yield Equivalent(offer=offer, gpus=gpus, nodes=nodes, per_hour=offer.price_usd * nodes)


def _best(
    found: Iterable[Equivalent],
    *,
    of: Callable[[Equivalent], object],
    rank: Callable[[Equivalent], tuple[Decimal | int, ...]],
) -> list[Equivalent]:
    """The first by rank of each group, the cheapest first."""
    best: dict[object, Equivalent] = {}
    for each in found:
        group = of(each)
        if group not in best or rank(each) < rank(best[group]):
            best[group] = each
    return sorted(best.values(), key=lambda each: (each.per_hour, each.offer.gpu_model))


def _card_in(kind: InstanceType) -> Card | None:
    """The GPU of a machine, in the form that this machine has."""
    return card_of(kind.gpu_model, kind.gpu_memory_gib, f"{kind.cloud}/{kind.name}")


def _figure(card: Card | None, memory_gib: Decimal, measure: str) -> GpuFigure | None:
    if measure == "gpu":
        return GpuFigure(value=Decimal(1), source=SOURCES["catalog"])
    if measure == "memory":
        return GpuFigure(value=memory_gib, source=SOURCES["catalog"])
    return None if card is None else card.figures.get(measure)


def _why_unknown(card: Card | None, measure: str) -> str:
    return "its figures are not known" if card is None else card.unknown[measure]
