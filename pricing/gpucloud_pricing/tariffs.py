"""Prices quantities by tariffs: disks, addresses, data transfer, snapshots, object storage. Pure functions.

The quantities are in GiB, also of transfer and object storage: the steps of the vendors' lists of "GB" are
at binary multiples (10 TB is 10240 GB), and so a GB of a list is taken as 2^30 bytes (UNVERIFIED: no vendor's
statement was read). If a list meant 10^9 bytes, a GiB would cost 7 % more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.tariff_table import SUBSCRIPTION, Tariff, TariffTable
from gpucloud_pricing.values import Region

Place = tuple[str, str]
"""A cloud and a region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TariffItem:
    """A quantity that is priced by one tariff; ``price`` is per unit of the quantity."""

    tariff: Tariff
    quantity: Decimal
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class TariffCost:
    """The price of a quantity, and the tariffs that it follows from.

    ``items`` are in one currency, and at least one; ``times`` is how often they are due.
    """

    items: tuple[TariffItem, ...]
    times: Decimal = Decimal(1)

    @property
    def amount(self) -> Decimal:
        """The price of the whole quantity, in ``currency``."""
        return self.times * sum((item.quantity * item.price for item in self.items), Decimal(0))

    @property
    def currency(self) -> str:
        """The currency of the amount."""
        return self.items[-1].tariff.currency


def disk_price(table: TariffTable, place: Place, gib: int, *, subscribed: bool = False) -> TariffCost | None:
    """The price of a disk per month and GiB of its billed size; ``None`` if unknown.

    A class of disks is billed by its size: that of 200 GiB at Azure costs a P15, whose price is spread over
    its 256 GiB here (see :attr:`gpucloud_pricing.Billing.disk_sizes_gib`).

    Args:
        table: the tariffs.
        place: where the disk is.
        gib: the size of the disk.
        subscribed: whether the disk is bought together with a subscription.
    """
    listed = table.at(*place, "disk")
    rows = [row for row in listed if subscribed and row.terms == SUBSCRIPTION]
    for row in rows or [row for row in listed if not row.terms]:
        if row.tier_to is None or gib <= row.tier_to:
            price = row.amount / row.tier_to if row.unit == "disk_month" and row.tier_to else row.amount
            return TariffCost(items=(TariffItem(tariff=row, quantity=Decimal(1), price=price),))
    return None


def address_price(table: TariffTable, place: Place) -> TariffCost | None:
    """The price of an hour of the public address of a machine; ``None`` if unknown."""
    return _unit_price(table.at(*place, "address"))


def snapshot_price(table: TariffTable, place: Place) -> TariffCost | None:
    """The price of a GiB of snapshots for a month, without free amounts; ``None`` if unknown."""
    return _unit_price(table.at(*place, "snapshot"))


def object_cost(table: TariffTable, place: Place, gib: Decimal) -> TariffCost | None:
    """The price of a month of object storage, without requests; ``None`` if unknown."""
    return _stepped(table.at(*place, "object_storage"), gib)


def egress_cost(
    table: TariffTable, place: Place, gib: Decimal, months: Decimal = Decimal(1)
) -> TariffCost | None:
    """The price of data sent to the internet; ``None`` if unknown.

    The steps and the free allowance are per account and month, and are taken as unused by anything else. AWS
    takes the allowance off before its steps begin (sources: its price list, whose first step begins at 0, and
    the allowance in ``tariffs.csv``); at Azure the first step is the allowance.

    Args:
        table: the tariffs.
        place: where the data comes from.
        gib: the quantity in all.
        months: the months in which it is sent, evenly; less than one counts as one.
    """
    times = max(months, Decimal(1))
    monthly = gib / times
    free = [
        TariffItem(tariff=row, quantity=min(monthly, row.tier_to or monthly), price=row.amount)
        for row in table.at(*place, "egress_allowance")[:1]
    ]
    left = monthly - sum((item.quantity for item in free), Decimal(0))
    paid = _stepped(table.at(*place, "egress"), left)
    return None if paid is None else TariffCost(items=(*free, *paid.items), times=times)


def transfer_cost(table: TariffTable, origin: Region, target: Region, gib: Decimal) -> TariffCost | None:
    """The price of data that moves from one region to another within a month; ``None`` if unknown.

    Between clouds the data leaves over the internet. Within a region it may cross zones, which is billed at
    both ends.
    """
    here = (origin.cloud, origin.name)
    if origin.cloud != target.cloud:
        return egress_cost(table, here, gib)
    if origin.name == target.name:
        return _stepped(table.at(*here, "inter_zone"), gib)
    nearby = ("continent",) if origin.geos & target.geos else ()
    rows = table.at(*here, "inter_region")
    for to in (target.name, *nearby, "*"):
        if fitting := [row for row in rows if row.to == to]:
            return _stepped(fitting, gib)
    return None


def months_of(hours: Decimal) -> Decimal:
    """Hours in months of :data:`HOURS_PER_MONTH`."""
    return hours / HOURS_PER_MONTH


def caveats(tariffs: Iterable[Tariff]) -> list[str]:
    """Why tariffs may be wrong, for people: last resorts, and sources that state another amount."""
    found: list[str] = []
    for tariff in tariffs:
        if tariff.fallback:
            found.append(f"{tariff.sku}: used for want of a better source ({tariff.fallback})")
        if (other := tariff.other) is not None:
            day = f" ({other.as_of})" if other.as_of else ""
            found.append(f"{tariff.sku}: {other.source}{day} states {other.amount:f} {other.currency}")
    return list(dict.fromkeys(found))


def _unit_price(rows: Sequence[Tariff]) -> TariffCost | None:
    """The price of one unit, by the first step."""
    return (
        TariffCost(items=(TariffItem(tariff=rows[0], quantity=Decimal(1), price=rows[0].amount),))
        if rows
        else None
    )


def _stepped(rows: Sequence[Tariff], quantity: Decimal) -> TariffCost | None:
    """The price of a quantity in steps; ``None`` if the steps do not reach so far."""
    items: list[TariffItem] = []
    reached = Decimal(0)
    for row in rows:
        end = quantity if row.tier_to is None else min(quantity, row.tier_to)
        if row.tier_from <= reached and (end > reached or not items):
            items.append(TariffItem(tariff=row, quantity=end - reached, price=row.amount))
            reached = end
    return TariffCost(items=tuple(items)) if items and reached == quantity else None
