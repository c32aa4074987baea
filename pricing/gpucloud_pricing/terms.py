"""What is billed for the compute of a usage: hours, whole terms of a commitment, or a capacity block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from gpucloud_pricing.purchases import HOURS_PER_MONTH, HOURS_PER_YEAR, Billed
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
