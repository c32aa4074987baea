"""Tariffs: the prices other than compute, by cloud, region and kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property

from gpucloud_pricing.values import Source

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
