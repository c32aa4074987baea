"""Estimates the cost of a box before it is bought: pure functions over offers and tariffs, all in USD.

An amount that is missing in the data is unknown, with the reason, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpucloud_pricing.interruptions import SpotEstimate, spot_estimate
from gpucloud_pricing.market import Market
from gpucloud_pricing.purchases import HOURS_PER_MONTH, Billed, Purchase
from gpucloud_pricing.rules import caution
from gpucloud_pricing.terms import (
    DAY,
    Bill,
    Usage,
    beside_compute,
    compute_bill,
    run_hours,
    sum_known,
    term_per_month,
)
from gpucloud_pricing.values import Offer, Price, UnsuitableError, number, usd_document

if TYPE_CHECKING:
    from gpucloud_pricing.documents import EstimateDocument, MoneyDocument

Place = tuple[str, str, str]
"""Cloud, region and instance type."""

PARTS = ("compute", "disk", "address", "egress", "snapshots")
"""The parts of a total."""

PERIODS = {"hour": Decimal(1), "day": Decimal(24), "month": HOURS_PER_MONTH}
"""The hours of the periods for which a running box is priced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of one usage on one offer, in USD.

    A part is ``None`` if it is unknown, with the reason in ``unknown``. ``total`` is the sum of the known
    parts: a lower bound, if ``complete`` is False. ``compute`` of a commitment is the cost of whole terms,
    which would be owed, and of the hours after them on demand, if these cost less than another term; ``bill``
    has its factors. ``upfront`` is the part of the first term that is due at once. ``expected_total``
    includes the work that interruptions repeat, and is never below ``total``; ``low_total`` and
    ``high_total`` of spot are what one of twenty cases stays below or exceeds, at the low and the high rate
    of interruptions. For other ways of paying the low one has no idle tail and no failed attempt, and the
    high one has boots up to their timeout. ``break_even_hours`` are the hours per month from which a
    commitment of a month or longer is cheaper than on-demand, ``None`` if never; a capacity block has none.
    ``spot`` is set for spot only. ``usage`` is that of this machine; ``None`` if it is not known, with the
    reason for each part: a computation on a GPU whose rate is unknown.
    """

    offer: Offer
    usage: Usage | None
    compute: Decimal | None
    disk: Decimal | None
    address: Decimal | None
    egress: Decimal | None
    snapshots: Decimal | None
    expected_total: Decimal | None
    break_even_hours: Decimal | None
    low_total: Decimal | None = None
    high_total: Decimal | None = None
    upfront: Decimal | None = None
    bill: Bill | None = None
    spot: SpotEstimate | None = None
    unknown: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def parts(self) -> dict[str, Decimal | None]:
        """The parts of the total by name."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def total(self) -> Decimal | None:
        """The sum of the known parts; ``None`` if the compute itself is unknown."""
        return None if self.compute is None else sum_known(self.parts.values())

    @property
    def cost(self) -> Decimal | None:
        """The expected total; where it is unknown, the total without interruptions, a lower bound."""
        return self.total if self.expected_total is None else self.expected_total

    @property
    def complete(self) -> bool:
        """Whether every part of the total is known."""
        return None not in self.parts.values()

    @property
    def missing(self) -> list[str]:
        """The unknown figures of the expected cost, by name: parts, or the expected total itself."""
        parts = [name for name, amount in self.parts.items() if amount is None]
        return parts or (["expected_total"] if self.expected_total is None else [])

    @property
    def rank(self) -> int:
        """The order by what is known: 0 everything, 1 a part or what interruptions cost is not, 2 nothing."""
        return 2 if self.total is None else int(bool(self.missing))

    def document(self) -> EstimateDocument:
        """The estimate for JSON."""
        hours = self.break_even_hours
        document: EstimateDocument = {
            "offer": self.offer.document(),
            "purchase": self.offer.purchase,
            "compute": _cents(self.compute),
            "disk": _cents(self.disk),
            "address": _cents(self.address),
            "egress": _cents(self.egress),
            "snapshots": _cents(self.snapshots),
            "total": _cents(self.total),
            "expected_total": _cents(self.expected_total),
            "low_total": _cents(self.low_total),
            "high_total": _cents(self.high_total),
            "complete": self.complete,
            "hours": None if self.usage is None else number(round(self.usage.hours, 4)),
            "break_even_hours": None if hours is None else float(round(hours, 1)),
        }
        if self.upfront is not None:
            document["upfront"] = usd_document(round(self.upfront, 4))
        if self.spot is not None:
            document["spot"] = self.spot.document()
            document["interruption_percent"] = round(self.spot.chance.middle * 100, 2)
        if self.unknown:
            document["unknown"] = self.unknown
        return document


def estimate(market: Market, offer: Offer, usage: Usage, *, on_demand_usd: Decimal | None) -> Estimate:
    """Estimates the cost of a usage on an offer.

    Args:
        market: the tariffs and exchange rates.
        offer: the offer.
        usage: the usage.
        on_demand_usd: the same type's on-demand price in the same region, for the break-even.
    """
    try:
        usage = usage.on(offer.kind)
    except UnsuitableError as error:
        return _without_hours(offer, str(error))
    unknown: dict[str, str] = {}
    beside = beside_compute(market, offer, usage, run_hours(offer, usage), unknown)
    bill = _bill(offer, usage, on_demand_usd, unknown)
    compute = None if bill is None else bill.usd
    if compute is None:
        unknown["total"] = unknown["expected_total"] = unknown["compute"]
    elif missing := [name for name in PARTS if name in unknown]:
        unknown["total"] = f"a lower bound: without {' and '.join(missing)}"
    committed = offer.paid_as.billed is Billed.IN_TERMS
    interruptible = offer.paid_as.interruptible
    spot = spot_estimate(market, offer, usage, on_demand_usd, unknown) if interruptible else None
    low: Decimal | None = None
    expected: Decimal | None = None
    high: Decimal | None = None
    total = None if compute is None else sum_known((compute, *beside.values()))
    if spot is not None:
        low, expected, high = spot.low_total, spot.expected_total, spot.high_total
    elif not interruptible and total is not None:
        smooth = replace(usage, idle_s=0, failed_attempts=0)
        slow = replace(usage, boot_s=max(usage.boot_s, usage.boot_limit_s))
        low, high = (_known_total(market, offer, each, on_demand_usd) for each in (smooth, slow))
        expected = total
    return Estimate(
        offer=offer,
        usage=usage,
        compute=compute,
        **beside,
        expected_total=expected,
        break_even_hours=_break_even(offer, on_demand_usd, unknown) if committed else None,
        low_total=low,
        high_total=high,
        upfront=None if bill is None or not offer.to_buy else _upfront(market, offer, bill),
        bill=bill,
        spot=spot,
        unknown=unknown,
    )


def _without_hours(offer: Offer, reason: str) -> Estimate:
    """The estimate of an offer on which the work takes an unknown time."""
    totals = ("total", "expected_total")
    return Estimate(
        offer=offer,
        usage=None,
        **dict.fromkeys(PARTS),
        expected_total=None,
        break_even_hours=None,
        unknown=dict.fromkeys((*PARTS, *totals), reason),
    )


def compare(
    market: Market, offers: Iterable[Offer], usage: Usage, on_demand: dict[Place, Decimal]
) -> list[Estimate]:
    """Estimates side by side: the lowest expected cost first; lower bounds come after complete totals."""
    estimates = [
        estimate(market, offer, usage, on_demand_usd=on_demand.get(place_of(offer))) for offer in offers
    ]
    return sorted(estimates, key=_by_cost)


def place_of(offer: Offer) -> Place:
    """The key for comparing ways of paying: the same type in the same region."""
    return offer.cloud, offer.region, offer.instance_type


def one_per_place(offers: Iterable[Offer], *, by_zone: bool = False) -> list[Offer]:
    """The first offer of each type, region, way of paying and terms: further zones cost the same or more.

    Args:
        offers: in the order of choice.
        by_zone: keeps the first offer of each zone.
    """
    first: dict[tuple[object, ...], Offer] = {}
    for offer in offers:
        zone = offer.zone if by_zone else None
        first.setdefault((place_of(offer), zone, offer.purchase, offer.terms), offer)
    return list(first.values())


def ways(
    market: Market,
    offers: Sequence[Offer],
    purchases: Sequence[str],
    usage: Usage,
    limit: int,
    *,
    by_zone: bool = False,
) -> list[Offer]:
    """The ways of paying in the best places of each cloud.

    Args:
        market: the tariffs.
        offers: in the order of choice.
        purchases: the requested ways of paying.
        usage: the usage.
        limit: the number of places for each cloud and way of paying. Where none of these has a complete
            total, the first place that has one is added: a low price beside an unknown one proves nothing.
        by_zone: whether each zone of a place is kept.
    """
    single = [offer for offer in one_per_place(offers, by_zone=by_zone) if offer.purchase in purchases]
    groups: dict[tuple[str, str], list[Offer]] = {}
    for offer in single:
        groups.setdefault((offer.cloud, offer.purchase), []).append(offer)
    places: set[Place] = set()
    for fitting in groups.values():
        places.update(list(dict.fromkeys(map(place_of, fitting)))[:limit])
        places.update(map(place_of, islice((o for o in fitting if _is_complete(market, o, usage)), 1)))
    return [offer for offer in single if place_of(offer) in places]


def hourly(market: Market, offer: Offer, usage: Usage) -> tuple[Decimal | None, dict[str, str]]:
    """The cost of running per hour without data transfer, with reasons for missing parts."""
    unknown: dict[str, str] = {}
    if offer.price_usd is None:
        return None, {"compute": "no price is known"}
    beside = beside_compute(market, offer, replace(usage, egress_gib=Decimal(0)), Decimal(1), unknown)
    bill = _bill(offer, usage, None, unknown)
    if bill is None:
        return None, unknown
    return sum_known((offer.price_usd * bill.machines, *beside.values())), unknown


def on_demand_prices(market: Market, offers: Iterable[Offer]) -> dict[Place, Decimal]:
    """The regional on-demand price of each offer's type in its region, if known."""
    found: dict[Place, Decimal] = {}
    for place in {place_of(offer) for offer in offers}:
        price = on_demand_price(market, place)
        usd = None if price is None else market.usd(price.net, price.currency)
        if usd is not None:
            found[place] = usd
    return found


def on_demand_price(market: Market, place: Place) -> Price | None:
    """The regional on-demand price of a type in a region; ``None`` if unknown."""
    cloud, region, name = place
    regional = (Purchase.ON_DEMAND, region, None)
    fitting = (p for p in market.prices_of(cloud, name) if (p.purchase, p.region, p.zone) == regional)
    return next(fitting, None)


def _bill(offer: Offer, usage: Usage, on_demand_usd: Decimal | None, unknown: dict[str, str]) -> Bill | None:
    """What is billed for compute; ``None`` with the reason in ``unknown``."""
    if offer.price_usd is None:
        unknown["compute"] = offer.unknown.get("price", offer.unknown.get("price_usd", "no price is known"))
        return None
    try:
        return compute_bill(offer, offer.price_usd, usage, on_demand_usd)
    except UnsuitableError as error:
        unknown["compute"] = str(error)
        return None


def _is_complete(market: Market, offer: Offer, usage: Usage) -> bool:
    """Whether every part of an offer's total is known."""
    try:
        usage = usage.on(offer.kind)
    except UnsuitableError:
        return False
    unknown: dict[str, str] = {}
    beside_compute(market, offer, usage, run_hours(offer, usage), unknown)
    return _bill(offer, usage, None, unknown) is not None and not unknown


def _known_total(market: Market, offer: Offer, usage: Usage, on_demand_usd: Decimal | None) -> Decimal | None:
    """The known parts of a usage without interruptions; ``None`` if it cannot be served."""
    bill = _bill(offer, usage, on_demand_usd, {})
    beside = beside_compute(market, offer, usage, run_hours(offer, usage), {})
    return None if bill is None else sum_known((bill.usd, *beside.values()))


def _upfront(market: Market, offer: Offer, bill: Bill) -> Decimal | None:
    """The part of the first term that is due at once, of all machines; that of a block is per day."""
    if offer.quote is None:
        return None
    upfront = market.usd(offer.quote.upfront * (1 - offer.quote.discount), offer.quote.currency)
    times = bill.term_hours / DAY if offer.paid_as.billed is Billed.IN_BLOCKS else 1
    return None if upfront is None else upfront * times * bill.machines


def _break_even(offer: Offer, on_demand_usd: Decimal | None, unknown: dict[str, str]) -> Decimal | None:
    if offer.price_usd is None or on_demand_usd is None:
        unknown["break_even_hours"] = "no on-demand price is known to compare with"
        return None
    if not on_demand_usd:
        return None  # on demand costs nothing, under conditions of the user's own
    hours = term_per_month(offer, offer.price_usd) / on_demand_usd
    return hours if hours < HOURS_PER_MONTH else None


def _by_cost(e: Estimate) -> tuple[Any, ...]:
    place = (*place_of(e.offer), e.offer.zone or "", e.offer.purchase)
    return e.rank, caution(e.offer.flags), e.cost or Decimal(0), place


def _cents(amount: Decimal | None) -> MoneyDocument | None:
    return None if amount is None else usd_document(round(amount, 4))
