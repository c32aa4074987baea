"""The parts of a cost beside compute, and the cost of some hours with all parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpucloud_pricing.market import Market
from gpucloud_pricing.tariffs import (
    TariffCost,
    address_price,
    disk_price,
    egress_cost,
    months_of,
    snapshot_price,
)
from gpucloud_pricing.usage import Usage, failed_hours, run_hours
from gpucloud_pricing.values import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a cost other than compute: a quantity, and the price of one of it; ``None`` if unknown."""

    quantity: Decimal
    price: TariffCost | None


def beside_compute(
    market: Market, offer: Offer, usage: Usage, hours: Decimal, unknown: dict[str, str]
) -> dict[str, Decimal | None]:
    """The cost of the parts other than compute of a usage that runs some hours."""
    costs: dict[str, Decimal | None] = {}
    for name, part in parts_of(market, offer, usage, hours).items():
        cost = cost_of(market, part)
        if cost is None:
            unknown[name] = f"no {name} price is known for {offer.cloud} {offer.region}"
        costs[name] = cost
    return costs


def cost_of(market: Market, part: Part) -> Decimal | None:
    """The cost of a part in USD; ``None`` if unknown. Nothing costs nothing."""
    if part.quantity == 0:
        return Decimal(0)
    return None if part.price is None else market.usd(part.price.amount * part.quantity, part.price.currency)


def parts_of(market: Market, offer: Offer, usage: Usage, hours: Decimal) -> dict[str, Part]:
    """The parts other than compute of a usage that runs some hours.

    Data to the internet is sent evenly while the work is done: the allowance and the steps are per month.
    """
    table, place = market.tariffs, (offer.cloud, offer.region)
    node_hours = hours * usage.nodes
    node_months = months_of(node_hours)
    disk = disk_price(table, place, usage.disk_gib, subscribed=offer.paid_as.disk_included)
    sent = Decimal(1 if usage.egress_gib else 0)
    egress = egress_cost(table, place, usage.egress_gib, months_of(usage.hours)) if sent else None
    return {
        "disk": Part(quantity=offer.kind.billing.disk_gib(usage.disk_gib) * node_months, price=disk),
        "address": Part(quantity=node_hours, price=address_price(table, place)),
        "egress": Part(quantity=sent, price=egress),
        "snapshots": Part(quantity=usage.snapshot_gib * node_months, price=snapshot_price(table, place)),
    }


def cost_of_hours(market: Market, offer: Offer, usage: Usage, hours: float) -> Decimal:
    """The cost of some hours with failed attempts before and the idle tail after; known parts only."""
    billed = Decimal(str(round(hours, 6))) + Decimal(usage.idle_s) / 3600 + failed_hours(offer, usage)
    beside = beside_compute(market, offer, usage, billed, {})
    return sum_known(((offer.price_usd or Decimal(0)) * billed * usage.nodes, *beside.values()))


def known_total(market: Market, offer: Offer, usage: Usage) -> Decimal:
    """The cost of a usage that is billed by the hour, without interruptions; known parts only."""
    hours = run_hours(offer, usage)
    beside = beside_compute(market, offer, usage, hours, {})
    return sum_known(((offer.price_usd or Decimal(0)) * hours * usage.nodes, *beside.values()))


def sum_known(parts: Iterable[Decimal | None]) -> Decimal:
    """The sum of the known parts."""
    return sum((part for part in parts if part is not None), Decimal(0))
