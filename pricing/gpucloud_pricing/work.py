"""The performance of GPUs and its price: per GPU, per GiB of memory, per TFLOP-hour; and equivalent machines.

TFLOPS are the peak figures of the GPU's maker, without sparsity: a program reaches a part of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpucloud_pricing.gpu_models import BY_NAME, SOURCES
from gpucloud_pricing.gpus import GpuWish
from gpucloud_pricing.values import InstanceType, Offer

PRECISIONS = {
    "fp64": "fp64",
    "fp32": "fp32",
    "tf32": "tf32_tensor",
    "fp16": "fp16_tensor",
    "fp8": "fp8_tensor",
}
"""Precisions and their figures in the vocabulary: from TF32 down, that of the tensor cores."""

UNITS = {"gpu": "GPU", "memory": "GiB", **dict.fromkeys(PRECISIONS, "TFLOPS")}
"""The units of work."""


class NoFigureError(ValueError):
    """A demand that cannot be measured."""


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


def per_gpu(model: str, memory_gib: Decimal, measure: str) -> Decimal | None:
    """The amount of a measure of one whole GPU; ``None`` without a figure."""
    if measure == "gpu":
        return Decimal(1)
    if measure == "memory":
        return memory_gib
    known = BY_NAME.get(model)
    figure = known and known.tflops.get(PRECISIONS[measure])
    return Decimal(str(figure)) if figure else None


def amount_of(kind: InstanceType, measure: str) -> Decimal | None:
    """The amount of a measure of a machine."""
    each = per_gpu(kind.gpu_model, kind.gpu_memory_gib, measure)
    return None if each is None else each * kind.gpu_count


def price_for(offer: Offer, measure: str) -> Decimal | None:
    """USD per hour for one unit of a measure; ``None`` if the price or the figure is unknown."""
    amount = amount_of(offer.kind, measure)
    return None if amount is None or offer.price_usd is None else offer.price_usd / amount


def source_of(model: str, measure: str) -> str | None:
    """The source of a GPU's figure; ``None`` without a reliable source."""
    if measure not in PRECISIONS:
        return SOURCES["catalog"]
    known = BY_NAME[model]
    return None if "tflops" in known.unverified else SOURCES[known.sources["tflops"]]


def amount_wanted(wish: GpuWish, measure: str) -> Decimal:
    """The amount of a measure of the GPUs in a wish.

    Raises:
        NoFigureError: the GPU, the count or the memory is not specified, or there is no figure.
    """
    if wish.model is None or wish.mig or wish.min_count != wish.max_count:
        raise NoFigureError("specify one GPU and a count: A100-80GB:8")
    sizes = BY_NAME[wish.model].memory_gib
    if wish.min_memory_gib is None and len(sizes) > 1 and measure == "memory":
        names = " or ".join(f"{wish.model}-{size}GB" for size in sizes)
        raise NoFigureError(f"{wish.model} has more than one size of memory: {names}")
    each = per_gpu(wish.model, wish.min_memory_gib or Decimal(max(sizes)), measure)
    if each is None:
        raise NoFigureError(f"no {measure} figure of {wish.model} is known")
    return each * wish.min_count


def equivalents(offers: Iterable[Offer], wanted: Decimal, measure: str) -> list[Equivalent]:
    """The cheapest way to reach an amount with each GPU, in as few machines as possible; the cheapest first.

    Args:
        offers: the offers; those without a price, or with a flagged one, are ignored.
        wanted: the amount.
        measure: one of :data:`UNITS`.
    """
    best: dict[tuple[str, Decimal], Equivalent] = {}
    for offer in offers:
        each = per_gpu(offer.gpu_model, offer.gpu_memory_gib, measure)
        if each is None or offer.price_usd is None or offer.flags:
            continue
        nodes = math.ceil(wanted / (each * offer.gpu_count))
        found = Equivalent(offer=offer, gpus=wanted / each, nodes=nodes, per_hour=offer.price_usd * nodes)
        key = (offer.gpu_model, offer.gpu_memory_gib)
        if key not in best or (nodes, found.per_hour) < (best[key].nodes, best[key].per_hour):
            best[key] = found
    return sorted(best.values(), key=lambda each: (each.per_hour, each.offer.gpu_model))
