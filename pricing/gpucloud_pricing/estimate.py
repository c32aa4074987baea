"""What a box will cost before it is bought: pure functions over offers and tariffs, everything in USD.

What the data lacks is unknown, with the reason, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from gpucloud_pricing.market import Market
from gpucloud_pricing.values import Offer, Tariff, number, usd_document

HOURS_PER_MONTH = Decimal(730)
TERM_HOURS = {
    "reserved_1y": Decimal(8760),
    "reserved_3y": Decimal(26280),
    "subscription_1m": HOURS_PER_MONTH,
}
"""How long a commitment is paid for, used or not."""

Place = tuple[str, str, str]
"""Cloud, region and instance type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a box is needed for.

    Attributes:
        hours: of work.
        nodes: identical boxes.
        disk_gib: root disk of each node.
        egress_gib: sent to the internet, all nodes together.
        boot_s: billed before the work can begin; spent again after every interruption.
        idle_s: billed after the work has ended.
    """

    hours: Decimal
    nodes: int = 1
    disk_gib: int = 100
    egress_gib: Decimal = Decimal(0)
    boot_s: int = 300
    idle_s: int = 0

    @property
    def billed_hours(self) -> Decimal:
        """Work, boot and idle tail, of one node."""
        return self.hours + Decimal(self.boot_s + self.idle_s) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of one usage on one offer, in USD.

    A part is ``None`` where it is not known; ``unknown`` then says why. ``total`` is the sum of the known
    parts: while ``complete`` is False it is a lower bound. ``compute`` of a commitment is what the whole term
    costs, because that is what would be owed. ``expected_total`` counts the work that interruptions repeat.
    ``break_even_hours`` are hours per month from which a commitment is cheaper than on-demand, ``None`` if
    never.
    """

    offer: Offer
    compute: Decimal | None
    disk: Decimal | None
    address: Decimal | None
    egress: Decimal | None
    expected_total: Decimal | None
    break_even_hours: Decimal | None
    unknown: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def parts(self) -> dict[str, Decimal | None]:
        """The parts of the total by name."""
        return {"compute": self.compute, "disk": self.disk, "address": self.address, "egress": self.egress}

    @property
    def total(self) -> Decimal | None:
        """The sum of the known parts; ``None`` when the compute itself is not known."""
        return None if self.compute is None else _sum(self.parts.values())

    @property
    def complete(self) -> bool:
        """Whether every part of the total is known."""
        return None not in self.parts.values()

    def document(self) -> dict[str, Any]:
        """The estimate as the contract writes it in JSON."""
        amounts = {**self.parts, "total": self.total, "expected_total": self.expected_total}
        document: dict[str, Any] = {"offer": self.offer.document(), "purchase": self.offer.purchase}
        document |= {name: None if amount is None else _cents(amount) for name, amount in amounts.items()}
        document["complete"] = self.complete
        hours = self.break_even_hours
        document["break_even_hours"] = None if hours is None else float(round(hours, 1))
        if self.unknown:
            document["unknown"] = self.unknown
        return document


def estimate(market: Market, offer: Offer, usage: Usage, *, on_demand_usd: Decimal | None) -> Estimate:
    """What a usage costs on an offer.

    Args:
        market: for tariffs and rates.
        offer: what would be rented.
        usage: what for.
        on_demand_usd: the same type's on-demand price in the same region, for the break-even.
    """
    unknown: dict[str, str] = {}
    hours = usage.billed_hours
    term = TERM_HOURS.get(offer.purchase)
    disk, address, egress = _beside(market, offer, usage, hours, unknown)
    break_even = _break_even(offer, on_demand_usd, unknown) if term else None
    if offer.price_usd is None:
        unknown["compute"] = unknown["total"] = unknown["expected_total"] = offer.unknown.get(
            "price", offer.unknown.get("price_usd", "no price is known")
        )
        compute = expected = None
    else:
        paid = hours if term is None else term * math.ceil(hours / term)
        compute = offer.price_usd * paid * usage.nodes
        expected = _sum((compute, disk, address, egress))
        if offer.purchase == "spot":
            expected = _expected_spot(market, offer, usage, unknown)
        if missing := [name for name in ("disk", "address", "egress") if name in unknown]:
            unknown["total"] = f"a lower bound: without {' and '.join(missing)}"
    return Estimate(
        offer=offer,
        compute=compute,
        disk=disk,
        address=address,
        egress=egress,
        expected_total=expected,
        break_even_hours=break_even,
        unknown=unknown,
    )


def compare(
    market: Market, offers: Iterable[Offer], usage: Usage, on_demand: dict[Place, Decimal]
) -> list[Estimate]:
    """Estimates side by side, what is expected to cost least first, unknown totals last."""
    estimates = [
        estimate(market, offer, usage, on_demand_usd=on_demand.get(place_of(offer))) for offer in offers
    ]
    return sorted(estimates, key=_by_cost)


def place_of(offer: Offer) -> Place:
    """What the ways of paying are compared for: the same type in the same region."""
    return offer.cloud, offer.region, offer.instance_type


def one_per_place(offers: Iterable[Offer]) -> list[Offer]:
    """The first offer of each type, region and way of paying: its zones cost the same or more."""
    first: dict[tuple[Place, str], Offer] = {}
    for offer in offers:
        first.setdefault((place_of(offer), offer.purchase), offer)
    return list(first.values())


def ways(offers: Sequence[Offer], purchases: Sequence[str], limit: int) -> list[Offer]:
    """The ways of paying in the best places.

    Args:
        offers: in the order of choosing.
        purchases: the ways of paying asked for.
        limit: how many places to keep for each way of paying.
    """
    single = one_per_place(offers)
    places: set[Place] = set()
    for purchase in purchases:
        places.update([place_of(offer) for offer in single if offer.purchase == purchase][:limit])
    return [offer for offer in single if place_of(offer) in places and offer.purchase in purchases]


def hourly(
    market: Market, offer: Offer, *, nodes: int, disk_gib: int
) -> tuple[Decimal | None, dict[str, str]]:
    """What a running box costs per hour: compute, disk and address, with reasons for what is left out."""
    unknown: dict[str, str] = {}
    if offer.price_usd is None:
        return None, {"compute": "no price is known"}
    usage = Usage(hours=Decimal(1), nodes=nodes, disk_gib=disk_gib)
    disk, address, _ = _beside(market, offer, usage, Decimal(1), unknown)
    return _sum((offer.price_usd * nodes, disk, address)), unknown


def on_demand_prices(market: Market, offers: Iterable[Offer]) -> dict[Place, Decimal]:
    """The regional on-demand price of each offer's type in its region, where one is known."""
    wanted = {place_of(offer) for offer in offers}
    found: dict[Place, Decimal] = {}
    for cloud, region, name in wanted:
        for price in market.prices_of(cloud, name):
            if (price.purchase, price.region, price.zone) == ("on_demand", region, None):
                usd = market.usd(price.amount, price.currency)
                if usd is not None:
                    found[cloud, region, name] = usd
    return found


def expected_hours(work: Decimal, boot: Decimal, percent_per_month: Decimal) -> Decimal:
    """Billed hours until some work is done, when every interruption starts it again.

    Interruptions are a Poisson process whose rate r per hour follows from the share of instances
    taken back within a month: r = -ln(1 - share) / 730. Work of w hours that begins again after each
    interruption, with b hours of boot each time, takes (e^(r (w + b)) - 1) / r hours on average: the expected
    time to a run of w + b hours without an event (J. T. Daly, "A higher order estimate of the optimum
    checkpoint interval for restart dumps", 2006, with one segment and no checkpoint).
    """
    if percent_per_month <= 0:
        return work + boot
    rate = -(1 - percent_per_month / 100).ln() / HOURS_PER_MONTH
    return ((rate * (work + boot)).exp() - 1) / rate


def _expected_spot(market: Market, offer: Offer, usage: Usage, unknown: dict[str, str]) -> Decimal | None:
    """The expected total with the middle of the interruption band; a node's loss restarts all nodes."""
    if offer.interruption is None or offer.price_usd is None:
        unknown["expected_total"] = "no interruption rate is known"
        return None
    middle = Decimal(offer.interruption.low + offer.interruption.high) / 2
    safe_month = (1 - middle / 100) ** usage.nodes
    boot, idle = Decimal(usage.boot_s) / 3600, Decimal(usage.idle_s) / 3600
    hours = expected_hours(usage.hours + idle, boot, (1 - safe_month) * 100)
    disk, address, egress = _beside(market, offer, usage, hours, {})
    return _sum((offer.price_usd * hours * usage.nodes, disk, address, egress))


def _break_even(offer: Offer, on_demand_usd: Decimal | None, unknown: dict[str, str]) -> Decimal | None:
    if offer.price_usd is None or on_demand_usd is None:
        unknown["break_even_hours"] = "no on-demand price is known to compare with"
        return None
    hours = offer.price_usd * HOURS_PER_MONTH / on_demand_usd
    return hours if hours < HOURS_PER_MONTH else None


def _beside(
    market: Market, offer: Offer, usage: Usage, hours: Decimal, unknown: dict[str, str]
) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    """Disk, public address and egress of a usage that bills so many hours."""
    node_hours = hours * usage.nodes
    amounts = {
        "disk": ("disk_gb_month", usage.disk_gib * node_hours / HOURS_PER_MONTH),
        "address": ("public_ip_hour", node_hours),
        "egress": ("egress_gb", usage.egress_gib),
    }
    costs: list[Decimal | None] = []
    for part, (kind, quantity) in amounts.items():
        price = Decimal(0) if quantity == 0 else _tariff_usd(market, offer, kind)
        if price is None:
            unknown[part] = f"no {part} price is known for {offer.cloud} {offer.region}"
        costs.append(None if price is None else price * quantity)
    disk, address, egress = costs
    return disk, address, egress


def _tariff_usd(market: Market, offer: Offer, kind: str) -> Decimal | None:
    tariff = find_tariff(market.tariffs, offer, kind)
    return None if tariff is None else market.usd(tariff.amount, tariff.currency)


def find_tariff(tariffs: Iterable[Tariff], offer: Offer, kind: str) -> Tariff | None:
    """The tariff of an offer's region; subscription prices only go with a subscription."""
    return tariff_at(tariffs, offer.cloud, offer.region, kind, subscribed=offer.purchase == "subscription_1m")


def tariff_at(
    tariffs: Iterable[Tariff], cloud: str, region: str, kind: str, *, subscribed: bool = False
) -> Tariff | None:
    """The tariff of a region; ``None`` where none is known."""
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
    """A usage as the contract writes it in JSON."""
    return {
        "hours": number(usage.hours),
        "nodes": usage.nodes,
        "disk_gib": usage.disk_gib,
        "egress_gib": number(usage.egress_gib),
        "boot_s": usage.boot_s,
        "idle_s": usage.idle_s,
        "billed_hours": float(round(usage.billed_hours, 4)),
    }
