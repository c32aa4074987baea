"""What a resource that a sweep found costs per hour: at its box's prices, as far as the journal has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from gpucloud.costs.resource_prices import price_of
from gpucloud.journal.facts import Price, Usage
from gpucloud.journal.records import Holding
from gpucloud.resources import Machine, Resource, ResourceKind
from gpucloud_pricing import Market
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Money


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPrice:
    """What a resource costs per hour.

    Attributes:
        own: the price of the resource itself; ``None`` if it is unknown.
        address: that of a machine's address, if the cloud lists none by itself; ``None`` if it is unknown.
        unknown: why a part is unknown; ``None`` if all are known.
    """

    own: Money | None
    address: Money | None = None
    unknown: str | None = None

    @property
    def known(self) -> tuple[Money, ...]:
        """The known parts."""
        return tuple(part for part in (self.own, self.address) if part is not None)


def found_price(market: Market, resource: Resource, holding: Holding | None) -> FoundPrice:
    """The new spending on a resource per hour, by the rule of :func:`gpucloud.costs.spend.per_hour`.

    A box that the journal has is billed at the prices of its launch; any other one, at the market's.

    Args:
        market: prices and tariffs.
        resource: as its cloud lists it.
        holding: the journal's record of its box.
    """
    if isinstance(resource, Machine):
        return _of_machine(market, resource, holding)
    if resource.ref.kind is ResourceKind.DISK and resource.size_gib is None and holding is not None:
        resource = replace(resource, size_gib=holding.disk_gib)
    agreed = None if holding is None else _agreed(market, resource, holding)
    return _found(agreed or price_of(market, resource))


def _of_machine(market: Market, machine: Machine, holding: Holding | None) -> FoundPrice:
    """Its compute while that is billed; and its address, where the cloud lists none of its own for it."""
    compute: Money | str = Money(amount=Decimal(0), currency="USD")
    if machine.billed and not machine.purchase.kind.paid_already:
        paid = next((each.price for each in _usage_of(machine, holding) if each.price), None)
        compute = price_of(market, machine) if paid is None else _money(paid, Decimal(1))
    price = _found(compute)
    listed = machine.address_apart or any(part.kind is ResourceKind.ADDRESS for part in machine.parts)
    if machine.public_ip is None or listed:
        return price
    ref = replace(machine.ref, kind=ResourceKind.ADDRESS)
    address = found_price(market, Resource(ref=ref, state=machine.state, tags=machine.tags), holding)
    return replace(price, address=address.own, unknown=price.unknown or address.unknown)


def _usage_of(machine: Machine, holding: Holding | None) -> list[Usage]:
    usage = () if holding is None else holding.usage
    return [each for each in usage if each.resource == machine.ref.id and each.part == "compute"]


def _agreed(market: Market, resource: Resource, holding: Holding) -> Money | None:
    """The price of a disk or an address at the launch of its box; ``None`` if the journal has none."""
    if holding.place is None or (holding.place.cloud, holding.place.region) != (
        resource.ref.cloud,
        resource.ref.region,
    ):
        return None  # a failed attempt in another region
    disk, address = holding.listed.get("disk_gb_month"), holding.listed.get("public_ip_hour")
    if resource.ref.kind is ResourceKind.DISK and disk is not None and resource.size_gib is not None:
        gib = market.billing_of(resource.ref.cloud).disk_gib(resource.size_gib)
        return _money(disk, gib / HOURS_PER_MONTH)
    if resource.ref.kind is ResourceKind.ADDRESS and address is not None:
        return _money(address, Decimal(1))
    return None


def _money(price: Price, quantity: Decimal) -> Money:
    return Money(amount=round(price.amount * quantity, 6), currency=price.currency)


def _found(price: Money | str) -> FoundPrice:
    return FoundPrice(own=None, unknown=price) if isinstance(price, str) else FoundPrice(own=price)
