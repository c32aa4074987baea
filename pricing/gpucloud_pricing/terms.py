"""What is billed for the compute of a usage: hours, whole terms of a commitment, or a capacity block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from gpucloud_pricing.demand import CAPACITY_BLOCK, HOURS_PER_MONTH, TERM_HOURS
from gpucloud_pricing.usage import Usage, run_hours
from gpucloud_pricing.values import Offer

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
PREPAID = frozenset({"subscription_1m", "subscription_1y", CAPACITY_BLOCK})
"""What is paid at once and whole: a quote's ``upfront`` is the price of the month, the year or the day of a
block, and its price per hour is derived from that and rounded.

Sources: ECS API Reference, DescribePrice, "PriceUnit"; EC2 API Reference, CapacityBlockOffering,
"upfrontFee".
"""
TERM_UNITS = {"d": DAY, "w": 7 * DAY, "m": HOURS_PER_MONTH, "y": TERM_HOURS["reserved_1y"]}
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


class UnsuitableError(ValueError):
    """A machine or a way of paying that cannot serve a usage, and why."""


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
    if offer.purchase == CAPACITY_BLOCK:
        days = block_days(hours)
        day = unit_price(offer, price_usd, DAY)
        return Bill(machines=block_size(usage.nodes), terms=1, term_hours=DAY * days, term_usd=day * days)
    if offer.purchase not in TERM_HOURS:
        return Bill(machines=usage.nodes, hours=hours, hour_usd=price_usd)
    return min(term_bills(offer, price_usd, hours, usage.nodes, on_demand_usd), key=lambda bill: bill.usd)


def term_bills(
    offer: Offer, price_usd: Decimal, hours: Decimal, machines: int, on_demand_usd: Decimal | None
) -> Iterator[Bill]:
    """The ways to serve some hours with a commitment, one of which is the cheapest.

    All in terms, or the last of them on demand, or all after the first: the cost of the numbers between is on
    the line between these.
    """
    length = TERM_HOURS[offer.purchase]
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
    if offer.purchase in PREPAID and quote is not None and quote.upfront and quote.amount:
        return price_usd * quote.upfront / quote.amount
    return price_usd * hours


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
    if offer.purchase != CAPACITY_BLOCK:
        return TERM_HOURS.get(offer.purchase, Decimal(0)) > most
    try:
        return DAY * block_days(run_hours(offer, usage.on(offer.kind))) > most
    except UnsuitableError:
        return False  # it is shown with the reason
