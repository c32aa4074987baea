"""Tariffs: prices of disks, addresses, transfer, snapshots, object storage; and quantities priced by them.

Pure functions.

The quantities are in GiB, also of transfer and object storage: the steps of the vendors' lists of "GB" are
at binary multiples (10 TB is 10240 GB), and so a GB of a list is taken as 2^30 bytes (UNVERIFIED: no vendor's
statement was read). If a list meant 10^9 bytes, a GiB would cost 7 % more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property

from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Region, Source

EVERYWHERE = "*"
"""The region of a tariff that applies in each region of its cloud that has none of its own."""
KINDS = (
    "disk",
    "address",
    "egress",
    "egress_allowance",
    "inter_region",
    "inter_zone",
    "snapshot",
    "object_storage",
)
"""The kinds of tariffs; see :class:`Tariff`."""
SUBSCRIPTION = "subscription"
"""The terms of a tariff for what is bought together with a subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFigure:
    """The amount that a second source states for a tariff; ``as_of`` is ``None`` if it has no date."""

    amount: Decimal
    currency: str
    as_of: date | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """A price other than compute: one step of a list of prices.

    Attributes:
        cloud: the provider's name.
        region: the region; ``*`` for each region without a tariff of its own.
        kind: one of :data:`KINDS`; ``egress`` is to the internet.
        sku: the name of what is sold, for people.
        tier_from: the quantity at which the step begins.
        tier_to: the quantity at which it ends; ``None`` for no end.
        unit: ``gib_month``, ``gb_month``, ``gb``, ``hour``, or ``disk_month`` for a class of disks, which are
            all larger than ``tier_from`` GiB, at most ``tier_to`` GiB, and billed as if of ``tier_to`` GiB.
        amount: the price of a unit.
        currency: the currency of the amount.
        as_of: the date of the price; ``None`` if its source has none.
        source: an id of the sources.
        to: of ``inter_region``, the destination: a region, ``continent`` for each region of the same
            continent, or ``*`` for each other region.
        terms: ``subscription``, or empty for what is paid by use.
        fallback: why the price is used only for want of a better one (``derived``, ``second-hand``, ...).
        other: a second source that states another amount.
    """

    cloud: str
    region: str
    kind: str
    sku: str
    unit: str
    amount: Decimal
    currency: str
    as_of: date | None
    source: str
    tier_from: Decimal = Decimal(0)
    tier_to: Decimal | None = None
    to: str = ""
    terms: str = ""
    fallback: str = ""
    other: OtherFigure | None = None


class TariffTable:
    """Tariffs by cloud, region and kind; each list is read when it is first asked for."""

    def __init__(
        self,
        rows: Callable[[str, str, str], Iterable[Tariff]],
        sources: Callable[[], Mapping[str, Source]] = dict[str, Source],
    ) -> None:
        """Makes a table.

        Args:
            rows: the tariffs of a cloud, a region (or ``*``) and a kind.
            sources: the sources of the tariffs, by id.
        """
        self._rows = rows
        self._sources = sources
        self._lists: dict[tuple[str, str, str], tuple[Tariff, ...]] = {}

    @classmethod
    def of(cls, tariffs: Iterable[Tariff]) -> TariffTable:
        """A table of given tariffs."""
        by_place: dict[tuple[str, str, str], list[Tariff]] = defaultdict(list)
        for tariff in tariffs:
            by_place[tariff.cloud, tariff.region, tariff.kind].append(tariff)
        return cls(lambda cloud, region, kind: by_place.get((cloud, region, kind), ()))

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """The sources of the tariffs, by id."""
        return self._sources()

    def at(self, cloud: str, region: str, kind: str) -> tuple[Tariff, ...]:
        """The tariffs of a region, by step; those of every region, if it has none of its own."""
        return self._exactly(cloud, region, kind) or self._exactly(cloud, EVERYWHERE, kind)

    def _exactly(self, cloud: str, region: str, kind: str) -> tuple[Tariff, ...]:
        key = (cloud, region, kind)
        if key not in self._lists:
            self._lists[key] = tuple(sorted(self._rows(*key), key=lambda tariff: tariff.tier_from))
        return self._lists[key]

    def joined(self, other: TariffTable) -> TariffTable:
        """Both tables in one: for a list of both, this table's."""

        def rows(cloud: str, region: str, kind: str) -> Iterable[Tariff]:
            return self._exactly(cloud, region, kind) or other._exactly(cloud, region, kind)

        return TariffTable(rows, lambda: {**other.sources, **self.sources})

    def refreshed(self, newer: TariffTable) -> TariffTable:
        """This table with the lists of another one where those are as new or newer.

        The steps of one list belong together: a list (one place, kind, destination and terms) is replaced as
        a whole. A list without a date is older than any with one.
        """

        def rows(cloud: str, region: str, kind: str) -> Iterable[Tariff]:
            shipped = _lists(self._exactly(cloud, region, kind))
            told = _lists(newer._exactly(cloud, region, kind))
            for key in shipped | told:
                fitting = (told.get(key, ()), shipped.get(key, ()))
                yield from max(fitting, key=_newest)

        return TariffTable(rows, lambda: {**self.sources, **newer.sources})


def _lists(tariffs: Iterable[Tariff]) -> dict[tuple[str, str], list[Tariff]]:
    """Tariffs of one place and kind, by destination and terms."""
    lists: dict[tuple[str, str], list[Tariff]] = defaultdict(list)
    for tariff in tariffs:
        lists[tariff.to, tariff.terms].append(tariff)
    return lists


def _newest(tariffs: Iterable[Tariff]) -> tuple[bool, date]:
    """When a list was true, as a sort key; nothing at all is the oldest."""
    days = [tariff.as_of or date.min for tariff in tariffs]
    return bool(days), max(days, default=date.min)


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
