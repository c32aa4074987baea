"""Offers and ways of paying in tables: prices, GPUs, zones, flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from gpucloud.rendering.table import Cell, Role
from gpucloud_pricing import Offer, format_count, format_money
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.rules import caution
from gpucloud_pricing.values import Experience

_UNIT_HEADINGS = {"gpu": "PER GPU", "memory": "PER GIB", "bandwidth": "PER TB/S"}
_PER_TFLOPS = "PER TFLOPH"
UNIT_HEADINGS = (*_UNIT_HEADINGS.values(), _PER_TFLOPS)
"""The headings of columns of what work costs per hour."""


def usd_text(amount: Decimal | None) -> str:
    """USD for people; ``unknown`` where no price is known."""
    return "unknown" if amount is None else format_money(amount)


def gpu_text(offer: Offer) -> str:
    """The GPUs: ``8 A100 80GB``."""
    memory = f"{offer.gpu_memory_gib.normalize():f}GB"
    return f"{format_count(offer.gpu_count)} {offer.gpu_model} {memory}"


def zones_text(zones: Iterable[str | None]) -> str | None:
    """Zones of one region in short: ``use2-az1,2,3``; ``None`` where none is known."""
    names = sorted(zone for zone in zones if zone)
    if not names:
        return None
    ends = [re.fullmatch(r"(.*?)([0-9]+|[a-z])", name) for name in names]
    heads = {end[1] for end in ends if end}
    if len(names) > 1 and len(heads) == 1 and all(ends):
        return f"{heads.pop()}{','.join(end[2] for end in ends if end)}"
    return ",".join(names)


def monthly_band_text(offer: Offer) -> str | None:
    """What is known of the interruptions of a spot offer, and of when."""
    if not offer.paid_as.interruptible:
        return None
    # What estimates costs is not imported where none are asked for: `offers` starts in less time.
    from gpucloud_pricing.figures import band_text
    from gpucloud_pricing.interruptions import evidence_of

    evidence = evidence_of(offer)
    if evidence is None:
        return "unknown"
    if isinstance(evidence, Experience):
        return f"your own {evidence.hours:.0f} h"
    return f"{band_text(evidence)} {evidence.as_of}"


def flags_cell(offer: Offer) -> Cell | None:
    """The flags; a commitment is one to buy."""
    flags = [flag.replace("_", " ") for flag in offer.flags] + (["to buy"] if offer.to_buy else [])
    return Cell(", ".join(flags), Role.STALE if caution(offer.flags) else None) if flags else None


def paid_cell(purchase: str, terms: str = "") -> Cell:
    """A way of paying with its terms."""
    return Cell(way_text(purchase, terms), Role.SPOT if purchase == Purchase.SPOT else None)


def price_cells(prices: Sequence[Decimal | None]) -> list[Cell]:
    """Prices in USD; the cheapest ones are marked if others are higher."""
    known = {price for price in prices if price is not None}
    cheapest = min(known) if len(known) > 1 else None
    return [Cell(usd_text(p), Role.CHEAPEST if p is not None and p == cheapest else None) for p in prices]


def unit_heading(measure: str) -> str:
    """The heading of a column of what work costs per hour."""
    return _UNIT_HEADINGS.get(measure, _PER_TFLOPS)


def own_price_text(offer: Offer) -> str | None:
    """The price in the currency that the cloud bills in, where that is not USD."""
    price = offer.price
    return None if price is None or price.currency == "USD" else format_money(price.amount, price.currency)


def paid_text(offer: Offer) -> str:
    """The way of paying in the form of flags, ``on-demand``, with its terms: ``all upfront``."""
    return way_text(offer.purchase, offer.terms)


def way_text(purchase: str, terms: str) -> str:
    """See :func:`paid_text`."""
    return ", ".join(filter(None, (purchase.replace("_", "-"), terms)))
