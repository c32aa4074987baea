"""vGPUs, which only NVIDIA's GRID driver drives: an image of the user's own may have it, a recipe has not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal

from gpucloud.errors import UsageError
from gpucloud.market.search import offer_text
from gpucloud.planning.plan import Candidate
from gpucloud_pricing import Market
from gpucloud_pricing.demand import Demand
from gpucloud_pricing.gpus import GpuRequirement
from gpucloud_pricing.rules import NEEDS_GRID
from gpucloud_pricing.values import Offer
from gpucloud_templates.software import is_own

NO_GRID = "they need NVIDIA's GRID driver, which gpucloud does not install (offers: needs grid)"


def without_vgpus(candidates: Sequence[Candidate], image: str) -> tuple[list[Candidate], dict[str, str]]:
    """The offers that an image can drive, and the clouds of the others, with the reason."""
    if is_own(image):
        return list(candidates), {}
    fitting = [each for each in candidates if NEEDS_GRID not in each.flags]
    left_out = {f"{each.cloud} vGPUs": NO_GRID for each in candidates if NEEDS_GRID in each.flags}
    return fitting, left_out


def refused_vgpu(market: Market, demand: Demand, today: date, candidate: Candidate) -> UsageError:
    """The error of a demand that only vGPUs meet, with the nearest offer that works."""
    found = nearest(market, demand, today, min_memory_gib=_memory_gib(candidate))
    own = "--image with an image of your own that has the driver"
    return UsageError(
        f"the {candidate.gpu_model} of {candidate.cloud} {candidate.instance_type} needs NVIDIA's GRID "
        "(vGPU) driver, which gpucloud does not install",
        hint=f"the nearest that works: {offer_text(found)}; or {own}" if found else f"use {own}",
    )


def nearest(market: Market, demand: Demand, today: date, *, min_memory_gib: Decimal) -> Offer | None:
    """The cheapest offer that works and is most like a demand; ``None`` if there is none.

    The same GPU as a whole card comes first, then any GPU in the same places with as much memory, then the
    same GPU elsewhere.
    """
    least = max(min_memory_gib, demand.gpu_memory_gib or Decimal(0))
    same = replace(demand, gpus=tuple(map(_whole, demand.gpus)))
    similar = replace(demand, gpus=(), instance_types=(), gpu_memory_gib=least)
    elsewhere = replace(same, clouds=(), regions=(), zones=())
    for wanted in (same, similar, elsewhere):
        for offer in market.search(wanted, today):
            if NEEDS_GRID not in offer.flags and offer.price_usd is not None:
                return offer
    return None


def _whole(requirement: GpuRequirement) -> GpuRequirement:
    """A requirement for whole GPUs instead of shares."""
    return replace(
        requirement,
        min_count=Decimal(math.ceil(requirement.min_count)),
        max_count=Decimal(math.ceil(requirement.max_count)),
    )


def _memory_gib(candidate: Candidate) -> Decimal:
    """The memory of one GPU, or of the share."""
    return candidate.gpu_memory_gib * min(candidate.gpu_count, Decimal(1))
