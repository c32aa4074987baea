"""The price per hour of a resource that was found, from its cloud's price lists."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal

from gpucloud.journal.facts import Ceiling
from gpucloud.journal.facts import Price as PaidPrice
from gpucloud.resources import Machine, Resource, ResourceKind
from gpucloud_pricing import Market, Price
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.tariffs import (
    TariffCost,
    address_price,
    disk_price,
    egress_cost,
    snapshot_price,
    transfer_cost,
)
from gpucloud_pricing.values import Money


def price_of(market: Market, resource: Resource) -> Money | str:
    """The price per hour of a resource, or why it is unknown. Zero, if it is not billed."""
    kind, place = resource.ref.kind, (resource.ref.cloud, resource.ref.region)
    if isinstance(resource, Machine) and resource.billed:
        price = compute_price(market, resource)
        unknown = f"no price of {resource.instance_type} in {resource.ref.region} is known"
        return unknown if price is None else Money(amount=price.amount, currency=price.currency)
    if kind is ResourceKind.DISK and resource.size_gib is None:
        return "the cloud's list does not show its size"
    if kind is ResourceKind.DISK:
        size = resource.size_gib or 0
        gib = market.billing_of(resource.ref.cloud).disk_gib(size)
        return _tariff(resource, disk_price(market.tariffs, place, size), gib / HOURS_PER_MONTH)
    if kind is ResourceKind.ADDRESS:
        return _tariff(resource, address_price(market.tariffs, place), Decimal(1))
    if kind is billed_copy(market, resource.ref.cloud, bootable=kind is ResourceKind.IMAGE):
        return "the cloud's list does not show how much data it holds"
    return Money(
        amount=Decimal(0), currency="USD"
    )  # a stopped machine; a spot request costs what its instance costs


def billed_copy(market: Market, cloud: str, *, bootable: bool) -> ResourceKind:
    """The kind of resource that is billed for the copy of a disk; ``bootable`` for that of a root disk."""
    is_image = bootable and market.billing_of(cloud).images_are_billed
    return ResourceKind.IMAGE if is_image else ResourceKind.SNAPSHOT


DISK, ADDRESS, SNAPSHOT = "disk_gb_month", "public_ip_hour", "snapshot_gb_month"
"""The parts other than compute, as the journal names their prices."""
BESIDE = {DISK: "a disk", ADDRESS: "an address"}
"""The same, for people."""
_STEP = Decimal("0.000001")


def beside_prices(
    market: Market, cloud: str, region: str, disk_gib: int | None
) -> dict[str, TariffCost | None]:
    """The list prices of one node's disk, per GiB of its billed size and month, and address, per hour."""
    place = (cloud, region)
    return {
        DISK: None if disk_gib is None else disk_price(market.tariffs, place, disk_gib),
        ADDRESS: address_price(market.tariffs, place),
    }


def listed_prices(
    market: Market, cloud: str, region: str, disk_gib: int | None, currency: str | None
) -> dict[str, PaidPrice]:
    """The known list prices of a box's disk and address, as its journal keeps them.

    A cloud bills an account in one currency: a tariff in another is converted at the reference rate.

    Args:
        market: the tariffs.
        cloud: the provider's name.
        region: where the box is.
        disk_gib: the size of the disk of each node, on which its price depends; ``None`` if it is unknown,
            and then so is the price.
        currency: that of the box's compute; ``None`` for that of the machines there.
    """
    there = currency or _currency_there(market, cloud, region)
    return _listed(market, beside_prices(market, cloud, region, disk_gib), there)


def listed_snapshot_price(
    market: Market, cloud: str, region: str, currency: str | None
) -> dict[str, PaidPrice]:
    """The list price of snapshots in a region, per GiB and month; empty if it is unknown.

    ``currency`` is that of the disk; ``None`` for that of the machines there.
    """
    there = currency or _currency_there(market, cloud, region)
    return _listed(market, {SNAPSHOT: snapshot_price(market.tariffs, (cloud, region))}, there)


def most_per_hour(market: Market, cloud: str, price: PaidPrice | None, gib: int) -> Ceiling:
    """The most that a disk or a copy of one costs per hour, in USD.

    Args:
        market: for exchange rates.
        cloud: the provider's name.
        price: per GiB and month.
        gib: the billed size.
    """
    usd = None if price is None else market.usd(price.amount * gib / HOURS_PER_MONTH, price.currency)
    return Ceiling(
        usd_per_hour=Decimal(0) if usd is None else usd.quantize(_STEP, rounding=ROUND_UP),
        without=("what it stores",) if usd is None else (),
        clouds=(cloud,),
    )


def _currency_there(market: Market, cloud: str, region: str) -> str | None:
    """The currency of the newest price of a machine in a region; ``None`` if none is known."""
    names = (name for each, name in market.types if each == cloud)
    prices = (price for name in names for price in market.prices_of(cloud, name) if price.region == region)
    newest = max(prices, key=lambda price: price.as_of, default=None)
    return newest.currency if newest else None


def _listed(
    market: Market, prices: Mapping[str, TariffCost | None], currency: str | None
) -> dict[str, PaidPrice]:
    listed: dict[str, PaidPrice] = {}
    for kind, price in prices.items():
        if price is None:
            continue
        row = price.items[0].tariff
        amount = market.converted(price.amount, price.currency, currency or price.currency)
        billed_in = price.currency if amount is None else currency or price.currency
        listed[kind] = PaidPrice(
            amount=price.amount if amount is None or billed_in == price.currency else round(amount, 10),
            currency=billed_in,
            as_of=row.as_of,
            source=row.source,
        )
    return listed


def compute_price(market: Market, machine: Machine) -> Price | None:
    """The newest price of a machine's place and way of paying; its zone's takes precedence."""
    place = (machine.ref.cloud, machine.ref.region, machine.zone)
    return price_at(market, place, machine.instance_type, machine.purchase.kind.listed_as)


def price_at(market: Market, place: tuple[str, str, str], instance_type: str, way: str) -> Price | None:
    """The newest price of a type in a place (cloud, region, zone); the zone's takes precedence.

    Args:
        market: the prices.
        place: with an empty zone, only prices of the whole region count.
        instance_type: the type.
        way: the way of paying, in the market's terms.
    """
    cloud, region, zone = place
    if (cloud, instance_type) not in market.types:
        return None
    fitting = [
        price
        for price in market.prices_of(cloud, instance_type)
        if (price.purchase, price.region) == (way, region) and price.zone in {None, zone}
    ]
    return max(fitting, key=lambda price: (price.zone is not None, price.as_of), default=None)


def _tariff(resource: Resource, price: TariffCost | None, quantity: Decimal) -> Money | str:
    if price is None:
        return f"no {resource.ref.kind} price is known for {resource.ref.cloud} {resource.ref.region}"
    return Money(amount=round(price.amount * quantity, 6), currency=price.currency)


def transfer_price(
    market: Market, origin: tuple[str, str], target: tuple[str, str], gib: Decimal
) -> Money | None:
    """What it costs to send data from one cloud and region to another, in USD; ``None`` if unknown."""
    here, there = market.regions.get(origin), market.regions.get(target)
    cost = transfer_cost(market.tariffs, here, there, gib) if here and there else None
    return _in_usd(market, cost)


def store_transfer_price(
    market: Market, origin: tuple[str, str], target: tuple[str, str], gib: Decimal | None
) -> Money | None:
    """What it costs to move data between a bucket and a machine, in USD; ``None`` if unknown.

    Within a region nothing, unless the cloud bills it as internet traffic
    (:attr:`gpucloud_pricing.billing.Billing.bucket_over_internet`). Without a size (``gib``), only what is
    free has a known price. Requests are not counted.
    """
    here = origin == target
    if here and not market.billing_of(origin[0]).bucket_over_internet:
        return Money(amount=Decimal(0), currency="USD")
    if gib is None:
        return None
    if not here:
        return transfer_price(market, origin, target, gib)
    return _in_usd(market, egress_cost(market.tariffs, origin, gib))


def _in_usd(market: Market, cost: TariffCost | None) -> Money | None:
    usd = None if cost is None else market.usd(cost.amount, cost.currency)
    return None if usd is None else Money(amount=usd, currency="USD")
