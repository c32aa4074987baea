"""Compares ways of paying for the same machine: the cheapest by hours per month, and the cheapest mix.

A machine that is billed by the hour costs nothing while it is off; a commitment costs the same whether it
is used or not. So the cost of a month is linear in its hours, and the cheapest way changes where lines cross.
All ways are compared over the same time: that of the need, for which whole terms are bought, or, without
one, a need that lasts as long as any term.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from gpucloud_pricing.purchases import HOURS_PER_MONTH, Billed
from gpucloud_pricing.terms import term_bills, term_per_month
from gpucloud_pricing.values import Offer

HOURS_PER_WEEK = Decimal(168)


class BadProfileError(ValueError):
    """A profile that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way of paying for one machine, in USD.

    Attributes:
        offer: the offer.
        per_hour: the cost of each hour that it runs.
        per_month: the cost of each month, also when it does not run.
    """

    offer: Offer
    per_hour: Decimal
    per_month: Decimal

    def cost(self, hours: Decimal) -> Decimal:
        """The cost of a month in which the machine runs some hours."""
        return self.per_month + self.per_hour * hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The hours per month for which one way of paying is the cheapest."""

    start: Decimal
    end: Decimal
    way: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLayer:
    """Machines that run for the same hours of a month."""

    machines: int
    hours: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The cheapest way of paying for one layer, and its cost in a month."""

    layer: LoadLayer
    way: Way
    cost: Decimal


def way_of(offer: Offer) -> Way | None:
    """An offer as a lasting way of paying; ``None`` if its price is unknown.

    A capacity block is none: it ends after half a year at the latest, and may not be available again.
    """
    if offer.price_usd is None:
        return None
    match offer.paid_as.billed:
        case Billed.HOURLY | Billed.ALREADY:
            return Way(offer=offer, per_hour=offer.price_usd, per_month=Decimal(0))
        case Billed.IN_TERMS:
            per_month = term_per_month(offer, offer.price_usd)
            return Way(offer=offer, per_hour=Decimal(0), per_month=per_month)
        case Billed.IN_BLOCKS:
            return None
        case _:
            assert_never(offer.paid_as.billed)


def ways_for(offer: Offer, hours: Decimal, on_demand_usd: Decimal | None) -> list[Way]:
    """An offer as ways of paying for a need that ends; none without a price, or for a capacity block.

    A commitment is paid in whole terms. What lasts beyond them is paid by another term or on demand,
    whichever costs less. That depends on the hours of a month: there is a way for each.

    Args:
        offer: the offer.
        hours: the time from the start of the need to its end.
        on_demand_usd: the price on demand in the same region; ``None`` if unknown.
    """
    lasting = way_of(offer)
    if lasting is None or offer.price_usd is None:
        return []
    if offer.paid_as.billed is not Billed.IN_TERMS:
        return [lasting]
    months = hours / HOURS_PER_MONTH
    return [
        Way(
            offer=offer,
            per_hour=bill.hour_usd * bill.hours / hours,
            per_month=bill.terms * bill.term_usd / months,
        )
        for bill in term_bills(offer, offer.price_usd, hours, 1, on_demand_usd)
    ]


def cheapest_by_hours(ways: Sequence[Way]) -> list[Stretch]:
    """The cheapest way for each range of hours per month."""
    if not ways:
        return []
    stretches: list[Stretch] = []
    start = Decimal(0)
    best = min(ways, key=lambda way: (way.per_month, way.per_hour))
    while True:
        flatter = [way for way in ways if way.per_hour < best.per_hour]
        crossings = [
            ((way.per_month - best.per_month) / (best.per_hour - way.per_hour), way) for way in flatter
        ]
        end, following = min(
            crossings, key=lambda each: (each[0], each[1].per_hour), default=(HOURS_PER_MONTH, best)
        )
        if end >= HOURS_PER_MONTH:
            return [*stretches, Stretch(start=start, end=HOURS_PER_MONTH, way=best)]
        stretches.append(Stretch(start=start, end=end, way=best))
        start, best = end, following


def cheapest_mix(ways: Sequence[Way], layers: Iterable[LoadLayer]) -> list[Share]:
    """The cheapest way for each layer: a commitment for machines that run long enough, else by the hour."""
    shares: list[Share] = []
    for layer in layers:
        way = min(ways, key=lambda each: (each.cost(layer.hours), each.per_month))
        shares.append(Share(layer=layer, way=way, cost=way.cost(layer.hours) * layer.machines))
    return shares


def month_of(shares: Iterable[Share]) -> Decimal:
    """The cost of a mix in a month."""
    return sum((share.cost for share in shares), Decimal(0))


def hours_per_month(profile: str) -> Decimal:
    """Hours in a month of 730 hours: ``8h/day``, ``8h/day,5d/week``, ``40h/week``, ``100h/month``.

    Raises:
        BadProfileError: it cannot be read, or has too many hours.
    """
    allowed = "allowed: 8h/day, 8h/day,5d/week, 40h/week, 100h/month"
    match = re.fullmatch(
        r"([0-9]+(?:\.[0-9]+)?)h/(day|week|month)(?:,([0-9]+(?:\.[0-9]+)?)d/week)?", profile.replace(" ", "")
    )
    if match is None or (match[3] and match[2] != "day"):
        raise BadProfileError(f"{profile!r} is not a profile; {allowed}")
    hours, days = Decimal(match[1]), Decimal(match[3] or 7)
    in_all = {"day": Decimal(24), "week": HOURS_PER_WEEK, "month": HOURS_PER_MONTH}[match[2]]
    if hours > in_all or days > 7:
        raise BadProfileError(f"{profile!r} has more hours or days than there are; {allowed}")
    if match[2] == "day":
        return hours * days / HOURS_PER_WEEK * HOURS_PER_MONTH
    return hours / in_all * HOURS_PER_MONTH
