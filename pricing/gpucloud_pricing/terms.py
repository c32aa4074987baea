"""The usage of boxes, and what is billed for it: its compute, and the parts beside that.

Compute is billed by hours, by whole terms of a commitment, or as a capacity block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, assert_never

from gpucloud_pricing.market import Market
from gpucloud_pricing.purchases import HOURS_PER_MONTH, HOURS_PER_YEAR, Billed
from gpucloud_pricing.tariffs import (
    TariffCost,
    address_price,
    disk_price,
    egress_cost,
    months_of,
    snapshot_price,
)
from gpucloud_pricing.values import InstanceType, Offer, UnsuitableError, number

if TYPE_CHECKING:
    from gpucloud_pricing.computation import Computation
    from gpucloud_pricing.documents import UsageDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of boxes.

    Attributes:
        hours: hours of work; with a computation, zero until a type of machine is known (:meth:`on`).
        nodes: identical boxes.
        disk_gib: root disk of each node.
        egress_gib: data sent to the internet, all nodes together.
        snapshot_gib: snapshots of each node, kept as long as the node.
        boot_s: billed before work begins, and again after every interruption.
        boot_limit_s: the timeout of a boot; the highest estimate has boots as long as this.
        failed_attempts: machines that were started and discarded before one worked; each is billed for the
            time of a boot.
        idle_s: billed after the work has ended.
        checkpoint_s: work between two checkpoints; ``None`` if an interruption loses all work.
        save_s: the time to write a checkpoint.
        computation: the work, if it takes different hours on different machines.
    """

    hours: Decimal
    nodes: int = 1
    disk_gib: int = 100
    egress_gib: Decimal = Decimal(0)
    snapshot_gib: int = 0
    boot_s: int = 300
    boot_limit_s: int = 1800
    failed_attempts: int = 0
    idle_s: int = 0
    checkpoint_s: int | None = None
    save_s: int = 0
    computation: Computation | None = None

    def on(self, kind: InstanceType) -> Usage:
        """This usage on machines of a type: with the hours that its computation takes there.

        Raises:
            UnsuitableError: how long it takes is not known, or it is too long.
        """
        if self.computation is None:
            return self
        return replace(self, hours=self.computation.hours(kind, self.nodes))

    @property
    def billed_hours(self) -> Decimal:
        """Work, boot and idle tail of one node, without interruptions and checkpoints."""
        return self.hours + Decimal(self.boot_s + self.idle_s) / 3600


def run_hours(offer: Offer, usage: Usage) -> Decimal:
    """The hours that machines of one node run: failed attempts, then work with its boot and idle tail."""
    least = Decimal(offer.kind.billing.minimum_s) / 3600
    return max(usage.billed_hours, least) + failed_hours(offer, usage)


def failed_hours(offer: Offer, usage: Usage) -> Decimal:
    """The billed hours of one node's failed attempts."""
    return Decimal(usage.failed_attempts * max(usage.boot_s, offer.kind.billing.minimum_s)) / 3600


def usage_document(usage: Usage) -> UsageDocument:
    """A usage for JSON; with a computation, each option has its own hours."""
    computation = usage.computation
    return {
        "hours": None if computation else number(usage.hours),
        "nodes": usage.nodes,
        "disk_gib": usage.disk_gib,
        "egress_gib": number(usage.egress_gib),
        "snapshot_gib": usage.snapshot_gib,
        "boot_s": usage.boot_s,
        "boot_limit_s": usage.boot_limit_s,
        "failed_attempts": usage.failed_attempts,
        "idle_s": usage.idle_s,
        "checkpoint_s": usage.checkpoint_s,
        "save_s": usage.save_s,
        "billed_hours": None if computation else float(round(usage.billed_hours, 4)),
        "computation": computation.document() if computation else None,
    }


DAY = Decimal(24)
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64)
"""The numbers of machines in a capacity block. Source: EC2 User Guide, "Capacity Blocks for ML"."""
BLOCK_DAYS: tuple[int, ...] = (*range(1, 15), *range(21, 183, 7))
"""The lengths of a capacity block: each day up to 14, then each week up to 182 days.

Source: EC2 User Guide, "Find and purchase Capacity Blocks".
"""
BLOCK_ENDS_EARLY = Decimal("0.5")
"""The hours before a block's end when its machines are terminated. Source: EC2 User Guide, "Work with
Capacity Blocks"."""
TERM_UNITS = {"d": DAY, "w": 7 * DAY, "m": HOURS_PER_MONTH, "y": HOURS_PER_YEAR}
"""The hours of the units in which terms are named: ``14d``, ``26w``, ``1m``, ``3y``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What is billed for the compute of a usage, in USD.

    Attributes:
        machines: the machines that are billed: the nodes, or the size of the capacity block.
        terms: the terms of each machine, one after the other; 0 if it is billed by the hour alone.
        term_hours: the length of a term.
        term_usd: the price of a term.
        hours: the hours of each machine that are billed by the hour; after the terms, on demand.
        hour_usd: the price of such an hour.
    """

    machines: int
    terms: int = 0
    term_hours: Decimal = Decimal(0)
    term_usd: Decimal = Decimal(0)
    hours: Decimal = Decimal(0)
    hour_usd: Decimal = Decimal(0)

    @property
    def usd(self) -> Decimal:
        """The compute of all machines."""
        return self.machines * (self.terms * self.term_usd + self.hours * self.hour_usd)


def compute_bill(offer: Offer, price_usd: Decimal, usage: Usage, on_demand_usd: Decimal | None) -> Bill:
    """What is billed for the compute of a usage: the cheapest that serves it.

    Args:
        offer: the offer.
        price_usd: its price per hour.
        usage: the usage.
        on_demand_usd: the price on demand in the same region, for the hours after the last whole term;
            without it, these take another term.

    Raises:
        UnsuitableError: no capacity block has so many machines, or lasts as long.
    """
    hours = run_hours(offer, usage)
    match offer.paid_as.billed:
        case Billed.HOURLY | Billed.ALREADY:
            return Bill(machines=usage.nodes, hours=hours, hour_usd=price_usd)
        case Billed.IN_TERMS:
            bills = term_bills(offer, price_usd, hours, usage.nodes, on_demand_usd)
            return min(bills, key=lambda bill: bill.usd)
        case Billed.IN_BLOCKS:
            days = block_days(hours)
            day = unit_price(offer, price_usd, DAY)
            return Bill(machines=block_size(usage.nodes), terms=1, term_hours=DAY * days, term_usd=day * days)
        case _:
            assert_never(offer.paid_as.billed)


def term_bills(
    offer: Offer, price_usd: Decimal, hours: Decimal, machines: int, on_demand_usd: Decimal | None
) -> Iterator[Bill]:
    """The ways to serve some hours with a commitment, one of which is the cheapest.

    All in terms, or the last of them on demand, or all after the first: the cost of the numbers between is on
    the line between these.
    """
    length = offer.paid_as.term_hours
    all_in = max(1, math.ceil(hours / length))
    for terms in {all_in} if on_demand_usd is None else {all_in, max(1, all_in - 1), 1}:
        yield Bill(
            machines=machines,
            terms=terms,
            term_hours=length,
            term_usd=unit_price(offer, price_usd, length),
            hours=max(Decimal(0), hours - terms * length),
            hour_usd=on_demand_usd or Decimal(0),
        )


def unit_price(offer: Offer, price_usd: Decimal, hours: Decimal) -> Decimal:
    """The price of a term, or of a block's day, of one machine in USD: as its cloud bills it, if prepaid.

    Args:
        offer: the offer.
        price_usd: its price per hour.
        hours: the length of the term or day.
    """
    quote = offer.quote
    if offer.paid_as.prepaid and quote is not None and quote.upfront and quote.amount:
        return price_usd * quote.upfront / quote.amount
    return price_usd * hours


def term_per_month(offer: Offer, price_usd: Decimal) -> Decimal:
    """What a commitment that is billed in terms costs in a month, of one machine in USD.

    Args:
        offer: the offer.
        price_usd: its price per hour.
    """
    length = offer.paid_as.term_hours
    return unit_price(offer, price_usd, length) * HOURS_PER_MONTH / length


def block_days(hours: Decimal) -> int:
    """The days of the shortest capacity block in which some hours can be used.

    Raises:
        UnsuitableError: there is none.
    """
    for days in BLOCK_DAYS:
        if hours <= days * DAY - BLOCK_ENDS_EARLY:
            return days
    raise UnsuitableError(
        f"no capacity block is longer than {BLOCK_DAYS[-1]} days, of which the last half hour is not usable"
    )


def block_size(nodes: int) -> int:
    """The machines in the smallest capacity block for some nodes.

    Raises:
        UnsuitableError: there is none.
    """
    for size in BLOCK_SIZES:
        if nodes <= size:
            return size
    raise UnsuitableError(f"no capacity block has more than {BLOCK_SIZES[-1]} machines")


def is_longer(offer: Offer, usage: Usage, most: Decimal) -> bool:
    """Whether an offer commits to a longer term, in hours, than the most."""
    if offer.paid_as.billed is not Billed.IN_BLOCKS:
        return offer.paid_as.term_hours > most
    try:
        return DAY * block_days(run_hours(offer, usage.on(offer.kind))) > most
    except UnsuitableError:
        return False  # it is shown with the reason


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
