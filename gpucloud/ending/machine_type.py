"""The type of a box's machines is what its cloud says: somebody may have changed it in the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from gpucloud.costs.resource_prices import compute_price
from gpucloud.journal.facts import BoughtOffer, Facts, Gpu, Price
from gpucloud.journal.records import Box
from gpucloud.planning.agreed import agreed_usd
from gpucloud.resources import Machine, Resource, State
from gpucloud.runtime.context import Context
from gpucloud_pricing import Market, format_money


def offer_of(market: Market, machine: Machine) -> BoughtOffer:
    """The offer of a machine, as far as the market knows its type."""
    kind = market.types.get((machine.ref.cloud, machine.instance_type))
    return BoughtOffer(
        instance_type=machine.instance_type,
        purchase=machine.purchase,
        interconnect=kind.interconnect if kind else None,
        gpu=Gpu(model=kind.gpu_model, count=kind.gpu_count, memory_gib=kind.gpu_memory_gib) if kind else None,
    )


def price_now(market: Market, machine: Machine) -> Price | None:
    """The list price of a machine per hour; ``None`` if it is unknown."""
    price = compute_price(market, machine)
    if price is None:
        return None
    return Price(amount=price.amount, currency=price.currency, as_of=price.as_of, source=price.source)


def follow_type(context: Context, box: Box, resources: Sequence[Resource | None]) -> Facts:
    """What changes for a box if its machines are of another type than it has; warns of it.

    Of machines of several types, the dearest counts for all.
    """
    if box.offer is None or context.market is None:
        return Facts()
    others = [each for each in resources if _is_other(box.offer, each)]
    machines = [each for each in others if isinstance(each, Machine)]
    if not machines:
        return Facts()
    market = context.market()
    machine = max(machines, key=lambda each: _usd(market, price_now(market, each)))
    seen, price = offer_of(market, machine), price_now(market, machine)
    context.warn(
        "look",
        f"{box.name} is a {machine.instance_type} now, not a {box.offer.instance_type}: {_costing(price)}",
        _hint(box, _usd(market, price), agreed_usd(box, market)),
    )
    offer = replace(box.offer, instance_type=seen.instance_type, gpu=seen.gpu, interconnect=seen.interconnect)
    return Facts(offer=offer, price=price)


def _is_other(offer: BoughtOffer, seen: Resource | None) -> bool:
    return (
        isinstance(seen, Machine)
        and seen.state is not State.GONE
        and seen.instance_type.casefold() != offer.instance_type.casefold()
    )


def _usd(market: Market, price: Price | None) -> Decimal:
    return (price and market.usd(price.amount, price.currency)) or Decimal(0)


def _costing(price: Price | None) -> str:
    if price is None:
        return "its price is unknown"
    return f"it costs {format_money(price.amount, price.currency)} per hour while it runs"


def _hint(box: Box, usd: Decimal, agreed: Decimal | None) -> str:
    """What to do about it; more than was agreed is never started, and nothing that runs is ended for it."""
    if agreed is not None and usd > agreed:
        return (
            f"that is above the {format_money(agreed)} that were agreed: gpucloud stop {box.name},"
            f" or gpucloud down {box.name}"
        )
    return f"to change it back, use the cloud's console; or delete it: gpucloud down {box.name}"
