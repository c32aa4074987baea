"""Estimates the cost of a box before it is bought: pure functions over offers and tariffs, all in USD.

An amount that is missing in the data is unknown, with the reason, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucloud_pricing.demand import CAPACITY_BLOCK, HOURS_PER_MONTH, TERM_HOURS
from gpucloud_pricing.market import Market
from gpucloud_pricing.values import Offer, Price, Tariff, number, usd_document

if TYPE_CHECKING:
    from gpucloud_pricing.spot import Outlook

Place = tuple[str, str, str]
"""Cloud, region and instance type."""

PARTS = ("compute", "disk", "address", "egress", "snapshots")
"""The parts of a total."""

DAY = Decimal(24)
BLOCK_DAYS = 14
"""Up to this many days a capacity block is of whole days; a longer one is of whole weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of boxes.

    Attributes:
        hours: hours of work.
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

    @property
    def billed_hours(self) -> Decimal:
        """Work, boot and idle tail of one node, without interruptions and checkpoints."""
        return self.hours + Decimal(self.boot_s + self.idle_s) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotEstimate:
    """The effect of interruptions on a usage. Times in hours.

    Attributes:
        outlook: the duration, and the number of interruptions.
        best_interval: the best hours of work between checkpoints; ``None`` if checkpoints do not pay off.
        dearer: whether on demand is expected to cost less; ``None`` if that price is unknown.
    """

    outlook: Outlook
    best_interval: float | None
    dearer: bool | None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        seen, best = self.outlook, self.best_interval
        return {
            "hours": {
                "low": round(seen.low, 2),
                "expected": round(seen.expected, 2),
                "high": round(seen.high, 2),
            },
            "interruptions": round(seen.interruptions, 3),
            "lost_hours": round(seen.lost, 2),
            "best_checkpoint_interval_s": None if best is None else round(best * 3600),
            "dearer_than_on_demand": self.dearer,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of one usage on one offer, in USD.

    A part is ``None`` if it is unknown, with the reason in ``unknown``. ``total`` is the sum of the known
    parts: a lower bound, if ``complete`` is False. ``compute`` of a commitment is the cost of the whole term,
    which would be owed, ``upfront`` the part of it that is due at once. ``expected_total`` includes the work
    that interruptions repeat; in nine of ten cases the total of spot is between ``low_total`` and
    ``high_total``. For other ways of paying the low one has no idle tail and no failed attempt, and the high
    one has boots up to their timeout. ``break_even_hours`` are the hours per month from which a commitment is
    cheaper than on-demand, ``None`` if never. ``spot`` is set for spot only.
    """

    offer: Offer
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
    spot: SpotEstimate | None = None
    unknown: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def parts(self) -> dict[str, Decimal | None]:
        """The parts of the total by name."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def total(self) -> Decimal | None:
        """The sum of the known parts; ``None`` if the compute itself is unknown."""
        return None if self.compute is None else _sum(self.parts.values())

    @property
    def complete(self) -> bool:
        """Whether every part of the total is known."""
        return None not in self.parts.values()

    def document(self) -> dict[str, Any]:
        """The estimate for JSON."""
        amounts = {
            **self.parts,
            "total": self.total,
            "expected_total": self.expected_total,
            "low_total": self.low_total,
            "high_total": self.high_total,
        }
        document: dict[str, Any] = {"offer": self.offer.document(), "purchase": self.offer.purchase}
        document |= {name: None if amount is None else _cents(amount) for name, amount in amounts.items()}
        document["complete"] = self.complete
        hours = self.break_even_hours
        document["break_even_hours"] = None if hours is None else float(round(hours, 1))
        if self.upfront is not None:
            document["upfront"] = _cents(self.upfront)
        if self.spot is not None:
            document["spot"] = self.spot.document()
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
    unknown: dict[str, str] = {}
    beside = _beside(market, offer, usage, run_hours(offer, usage), unknown)
    break_even = _break_even(offer, on_demand_usd, unknown) if offer.to_buy else None
    compute: Decimal | None = None
    upfront: Decimal | None = None
    if offer.price_usd is None:
        unknown["compute"] = unknown["total"] = unknown["expected_total"] = offer.unknown.get(
            "price", offer.unknown.get("price_usd", "no price is known")
        )
    else:
        compute = offer.price_usd * paid_hours(offer, usage) * usage.nodes
        upfront = _upfront(market, offer, usage) if offer.to_buy else None
        if missing := [name for name in PARTS if name in unknown]:
            unknown["total"] = f"a lower bound: without {' and '.join(missing)}"
    spot = _spot(market, offer, usage, on_demand_usd, unknown) if offer.purchase == "spot" else None
    low: Decimal | None = None
    expected: Decimal | None = None
    high: Decimal | None = None
    if spot is not None:
        seen = spot.outlook
        low, expected, high = (
            _for_hours(market, offer, usage, each) for each in (seen.low, seen.expected, seen.high)
        )
    elif offer.purchase != "spot" and compute is not None:
        smooth = replace(usage, idle_s=0, failed_attempts=0)
        slow = replace(usage, boot_s=max(usage.boot_s, usage.boot_limit_s))
        low, high = (_known_total(market, offer, each) for each in (smooth, slow))
        expected = _sum((compute, *beside.values()))
    return Estimate(
        offer=offer,
        compute=compute,
        **beside,
        expected_total=expected,
        break_even_hours=break_even,
        low_total=low,
        high_total=high,
        upfront=upfront,
        spot=spot,
        unknown=unknown,
    )


def compare(
    market: Market, offers: Iterable[Offer], usage: Usage, on_demand: dict[Place, Decimal]
) -> list[Estimate]:
    """Estimates side by side: the lowest expected cost first, unknown totals last."""
    estimates = [
        estimate(market, offer, usage, on_demand_usd=on_demand.get(place_of(offer))) for offer in offers
    ]
    return sorted(estimates, key=_by_cost)


def place_of(offer: Offer) -> Place:
    """The key for comparing ways of paying: the same type in the same region."""
    return offer.cloud, offer.region, offer.instance_type


def one_per_place(offers: Iterable[Offer]) -> list[Offer]:
    """The first offer of each type, region, way of paying and terms: further zones cost the same or more."""
    first: dict[tuple[Place, str, str], Offer] = {}
    for offer in offers:
        first.setdefault((place_of(offer), offer.purchase, offer.terms), offer)
    return list(first.values())


def ways(offers: Sequence[Offer], purchases: Sequence[str], limit: int) -> list[Offer]:
    """The ways of paying in the best places.

    Args:
        offers: in the order of choice.
        purchases: the requested ways of paying.
        limit: the number of places for each way of paying.
    """
    single = one_per_place(offers)
    places: set[Place] = set()
    for purchase in purchases:
        places.update([place_of(offer) for offer in single if offer.purchase == purchase][:limit])
    return [offer for offer in single if place_of(offer) in places and offer.purchase in purchases]


def hourly(market: Market, offer: Offer, usage: Usage) -> tuple[Decimal | None, dict[str, str]]:
    """The cost of running per hour without data transfer, with reasons for missing parts."""
    unknown: dict[str, str] = {}
    if offer.price_usd is None:
        return None, {"compute": "no price is known"}
    beside = _beside(market, offer, replace(usage, egress_gib=Decimal(0)), Decimal(1), unknown)
    return _sum((offer.price_usd * usage.nodes, *beside.values())), unknown


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
    regional = ("on_demand", region, None)
    fitting = (p for p in market.prices_of(cloud, name) if (p.purchase, p.region, p.zone) == regional)
    return next(fitting, None)


def run_hours(offer: Offer, usage: Usage) -> Decimal:
    """The hours that machines of one node run: failed attempts, then work with its boot and idle tail."""
    least = Decimal(offer.kind.billing.minimum_s) / 3600
    return max(usage.billed_hours, least) + _failed_hours(offer, usage)


def _failed_hours(offer: Offer, usage: Usage) -> Decimal:
    return Decimal(usage.failed_attempts * max(usage.boot_s, offer.kind.billing.minimum_s)) / 3600


def paid_hours(offer: Offer, usage: Usage) -> Decimal:
    """The billed hours of one machine: those of the usage, or of as many terms as it needs.

    A capacity block is of whole days, from the fifteenth on of whole weeks. Source: EC2 API Reference,
    DescribeCapacityBlockOfferings, "CapacityDurationHours".
    """
    hours = run_hours(offer, usage)
    if offer.purchase == CAPACITY_BLOCK:
        days = math.ceil(hours / DAY)
        return DAY * (days if days <= BLOCK_DAYS else math.ceil(Decimal(days) / 7) * 7)
    term = TERM_HOURS.get(offer.purchase)
    return hours if term is None else term * math.ceil(hours / term)


def _upfront(market: Market, offer: Offer, usage: Usage) -> Decimal | None:
    """The upfront part of a commitment."""
    if offer.quote is None:
        return None
    upfront = market.usd(offer.quote.upfront * (1 - offer.quote.discount), offer.quote.currency)
    return None if upfront is None else upfront * upfront_terms(offer, usage) * usage.nodes


def upfront_terms(offer: Offer, usage: Usage) -> Decimal:
    """How many times the upfront part is due at once: once per day of a capacity block, otherwise once."""
    return paid_hours(offer, usage) / DAY if offer.purchase == CAPACITY_BLOCK else Decimal(1)


def _spot(
    market: Market, offer: Offer, usage: Usage, on_demand_usd: Decimal | None, unknown: dict[str, str]
) -> SpotEstimate | None:
    """The effect of interruptions, at the middle of the band; the loss of a node restarts all nodes."""
    from gpucloud_pricing.spot import Work, best_interval, outlook, rate_per_hour

    if offer.price_usd is None:
        return None
    if offer.interruption is None:
        unknown["expected_total"] = "no interruption rate is known"
        return None
    work = Work(
        hours=float(usage.hours),
        boot=usage.boot_s / 3600,
        rate=rate_per_hour((offer.interruption.low + offer.interruption.high) / 2, usage.nodes),
        interval=None if usage.checkpoint_s is None else usage.checkpoint_s / 3600,
        save=usage.save_s / 3600,
    )
    seen = outlook(work)
    if seen is None:
        unknown["expected_total"] = "interrupted so often that the work practically never ends"
        return None
    dearer = None
    if on_demand_usd is not None:
        steady = replace(offer, purchase="on_demand", price_usd=on_demand_usd)
        sure = _for_hours(market, steady, usage, float(usage.hours) + work.boot)
        dearer = _for_hours(market, offer, usage, seen.expected) > sure
    return SpotEstimate(outlook=seen, best_interval=best_interval(work), dearer=dearer)


def _for_hours(market: Market, offer: Offer, usage: Usage, hours: float) -> Decimal:
    """The cost of some hours with failed attempts before and the idle tail after; known parts only."""
    billed = Decimal(str(round(hours, 6))) + Decimal(usage.idle_s) / 3600 + _failed_hours(offer, usage)
    beside = _beside(market, offer, usage, billed, {})
    return _sum(((offer.price_usd or Decimal(0)) * billed * usage.nodes, *beside.values()))


def _known_total(market: Market, offer: Offer, usage: Usage) -> Decimal:
    """The cost of a usage without interruptions; known parts only."""
    beside = _beside(market, offer, usage, run_hours(offer, usage), {})
    return _sum(((offer.price_usd or Decimal(0)) * paid_hours(offer, usage) * usage.nodes, *beside.values()))


def _break_even(offer: Offer, on_demand_usd: Decimal | None, unknown: dict[str, str]) -> Decimal | None:
    if offer.price_usd is None or on_demand_usd is None:
        unknown["break_even_hours"] = "no on-demand price is known to compare with"
        return None
    hours = offer.price_usd * HOURS_PER_MONTH / on_demand_usd
    return hours if hours < HOURS_PER_MONTH else None


def _beside(
    market: Market, offer: Offer, usage: Usage, hours: Decimal, unknown: dict[str, str]
) -> dict[str, Decimal | None]:
    """The cost of the parts other than compute of a usage that runs some hours."""
    costs: dict[str, Decimal | None] = {}
    for part, (kind, quantity) in quantities(offer, usage, hours).items():
        price = Decimal(0) if quantity == 0 else _tariff_usd(market, offer, kind)
        if price is None:
            unknown[part] = f"no {part} price is known for {offer.cloud} {offer.region}"
        costs[part] = None if price is None else price * quantity
    return costs


def quantities(offer: Offer, usage: Usage, hours: Decimal) -> dict[str, tuple[str, Decimal]]:
    """The kind of tariff and the quantity of each part other than compute, for some hours."""
    node_hours = hours * usage.nodes
    node_months = node_hours / HOURS_PER_MONTH
    return {
        "disk": ("disk_gb_month", offer.kind.billing.disk_gib(usage.disk_gib) * node_months),
        "address": ("public_ip_hour", node_hours),
        "egress": ("egress_gb", usage.egress_gib),
        "snapshots": ("snapshot_gb_month", usage.snapshot_gib * node_months),
    }


def _tariff_usd(market: Market, offer: Offer, kind: str) -> Decimal | None:
    tariff = find_tariff(market.tariffs, offer, kind)
    return None if tariff is None else market.usd(tariff.amount, tariff.currency)


def find_tariff(tariffs: Iterable[Tariff], offer: Offer, kind: str) -> Tariff | None:
    """The tariff of an offer's region; subscription prices apply only to a subscription."""
    return tariff_at(
        tariffs, offer.cloud, offer.region, kind, subscribed=offer.purchase.startswith("subscription")
    )


def tariff_at(
    tariffs: Iterable[Tariff], cloud: str, region: str, kind: str, *, subscribed: bool = False
) -> Tariff | None:
    """The tariff of a region; ``None`` if unknown."""
    fitting = [
        tariff
        for tariff in tariffs
        if (tariff.cloud, tariff.kind) == (cloud, kind)
        and tariff.region in {region, "*"}
        and (subscribed or "subscription" not in tariff.sku)
    ]
    return max(
        fitting, key=lambda t: (t.region != "*", subscribed == ("subscription" in t.sku)), default=None
    )


def _by_cost(e: Estimate) -> tuple[Any, ...]:
    cost = e.expected_total if e.expected_total is not None else e.total
    place = (*place_of(e.offer), e.offer.zone or "", e.offer.purchase)
    return cost is None, bool(e.offer.flags), cost or Decimal(0), place


def _sum(parts: Iterable[Decimal | None]) -> Decimal:
    return sum((part for part in parts if part is not None), Decimal(0))


def _cents(amount: Decimal) -> dict[str, str]:
    return usd_document(round(amount, 4))


def usage_document(usage: Usage) -> dict[str, Any]:
    """A usage for JSON."""
    return {
        "hours": number(usage.hours),
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
        "billed_hours": float(round(usage.billed_hours, 4)),
    }
