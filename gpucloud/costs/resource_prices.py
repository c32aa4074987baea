"""The price per hour of a resource that was found, from its cloud's price lists."""

from __future__ import annotations

from decimal import Decimal

from gpucloud.journal.facts import Price as PaidPrice
from gpucloud.resources import Machine, Resource, ResourceKind
from gpucloud_pricing import Market, Price
from gpucloud_pricing.demand import HOURS_PER_MONTH, Purchase
from gpucloud_pricing.estimate import tariff_at
from gpucloud_pricing.values import Money


def price_of(market: Market, resource: Resource) -> Money | str:
    """The price per hour of a resource, or why it is unknown. Zero, if it is not billed."""
    kind = resource.ref.kind
    if isinstance(resource, Machine):
        price = compute_price(market, resource)
        unknown = f"no price of {resource.instance_type} in {resource.ref.region} is known"
        return unknown if price is None else Money(amount=price.amount, currency=price.currency)
    if kind is ResourceKind.DISK and resource.size_gib is None:
        return "the cloud's list does not show its size"
    if kind is ResourceKind.DISK:
        gib = market.billing_of(resource.ref.cloud).disk_gib(resource.size_gib or 0)
        return _tariff(market, resource, "disk_gb_month", gib / HOURS_PER_MONTH)
    if kind is ResourceKind.ADDRESS:
        return _tariff(market, resource, "public_ip_hour", Decimal(1))
    if kind is ResourceKind.SNAPSHOT:
        return "no price of a snapshot is known"
    return Money(amount=Decimal(0), currency="USD")  # a spot request costs what its instance costs


BESIDE = {"disk_gb_month": "a disk", "public_ip_hour": "an address"}
"""The kinds of tariffs other than compute, and their names for people."""


def listed_prices(market: Market, cloud: str, region: str) -> dict[str, PaidPrice]:
    """The known list prices of disks and addresses, by kind of tariff."""
    tariffs = {kind: tariff_at(market.tariffs, cloud, region, kind) for kind in BESIDE}
    return {
        kind: PaidPrice(
            amount=tariff.amount, currency=tariff.currency, as_of=tariff.as_of, source=tariff.source
        )
        for kind, tariff in tariffs.items()
        if tariff is not None
    }


def compute_price(market: Market, machine: Machine) -> Price | None:
    """The newest price of a machine's place and way of paying; its zone's takes precedence."""
    way = "spot" if machine.purchase is Purchase.SPOT else "on_demand"
    place = (machine.ref.cloud, machine.ref.region, machine.zone)
    return price_at(market, place, machine.instance_type, way)


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


def _tariff(market: Market, resource: Resource, kind: str, quantity: Decimal) -> Money | str:
    tariff = tariff_at(market.tariffs, resource.ref.cloud, resource.ref.region, kind)
    if tariff is None:
        return f"no {resource.ref.kind} price is known for {resource.ref.cloud} {resource.ref.region}"
    return Money(amount=round(tariff.amount * quantity, 6), currency=tariff.currency)
