"""What boxes have cost: their compute at the price that was agreed when they were launched, their disks and
addresses at list prices. What is sent to the internet is not known here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucloud_pricing import Market
from gpucloud_pricing.billing import billed_disk_gib
from gpucloud_pricing.demand import HOURS_PER_MONTH
from gpucloud_pricing.estimate import tariff_at

if TYPE_CHECKING:
    from gpucloud.store import Box

HOURS, GIB_MONTHS = "Hours", "GiB-Months"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one part of a box has cost within one month (in UTC).

    Attributes:
        box: whose.
        part: ``compute``, ``disk`` or ``address``.
        start: from when.
        end: until when.
        quantity: how much, all nodes together.
        unit: of what: :data:`HOURS` or :data:`GIB_MONTHS`.
        unit_price: what one costs; ``None`` where that is not known.
        currency: of the price.
        as_of: the date of the price, where one is stated.
        source: an id of the market's sources; for compute, where the price was named.
        agreed: whether this price was agreed at the launch; otherwise it is today's list price.
    """

    box: Box
    part: str
    start: datetime
    end: datetime
    quantity: Decimal
    unit: str
    unit_price: Decimal | None
    currency: str
    as_of: str | None
    source: str | None
    agreed: bool

    @property
    def amount(self) -> Decimal | None:
        """What it has cost; ``None`` where the price is not known."""
        return None if self.unit_price is None else self.unit_price * self.quantity


def charges(market: Market, box: Box, since: datetime | None, now: datetime) -> Iterator[Charge]:
    """What a box has cost, by part and month; nothing, of one that never began to be billed.

    Args:
        market: for what the journal does not hold: the prices of disks and addresses.
        box: the box.
        since: what was before is left out.
        now: until when it is billed, while it lives.
    """
    if box.started_at is None:
        return
    begin = box.started_at if since is None else max(since, box.started_at)
    for start, end in months(begin, box.ended_at or now):
        yield _compute(box, start, end)
        yield _listed(market, box, start, end, part="disk", kind="disk_gb_month")
        yield _listed(market, box, start, end, part="address", kind="public_ip_hour")


def months(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """A stretch of time, cut where months begin in UTC."""
    while start < end:
        following = first_of_next_month(start)
        yield start, min(following, end)
        start = following


def first_of_month(at: datetime) -> datetime:
    """When the month of a moment began, in UTC."""
    day = at.astimezone(UTC)
    return datetime(day.year, day.month, 1, tzinfo=UTC)


def first_of_next_month(at: datetime) -> datetime:
    """When the month after that of a moment begins, in UTC."""
    day = at.astimezone(UTC)
    return datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)


def _compute(box: Box, start: datetime, end: datetime) -> Charge:
    facts = box.facts
    price: dict[str, Any] = facts.get("price") or {}
    return Charge(
        box=box,
        part="compute",
        start=start,
        end=end,
        quantity=_node_hours(box, start, end),
        unit=HOURS,
        unit_price=box.price_per_hour,
        currency=str(price.get("currency", "USD")),
        as_of=facts.get("price_as_of"),
        source=facts.get("price_source"),
        agreed=True,
    )


def _listed(market: Market, box: Box, start: datetime, end: datetime, *, part: str, kind: str) -> Charge:
    """A part at its list price of today; the journal holds none."""
    facts, hours = box.facts, _node_hours(box, start, end)
    tariff = tariff_at(market.tariffs, str(facts.get("cloud")), str(facts.get("region")), kind)
    by_size = kind == "disk_gb_month"
    size_known = not by_size or facts.get("disk_gib") is not None
    gib = billed_disk_gib(str(facts.get("cloud")), int(facts.get("disk_gib") or 0))
    as_of: date | None = tariff.as_of if tariff else None
    return Charge(
        box=box,
        part=part,
        start=start,
        end=end,
        quantity=hours * gib / HOURS_PER_MONTH if by_size else hours,
        unit=GIB_MONTHS if by_size else HOURS,
        unit_price=tariff.amount if tariff and size_known else None,
        currency=tariff.currency if tariff else "USD",
        as_of=as_of.isoformat() if as_of else None,
        source=tariff.source if tariff else None,
        agreed=False,
    )


def _node_hours(box: Box, start: datetime, end: datetime) -> Decimal:
    nodes = max(len(box.facts.get("nodes") or ()), 1)
    return Decimal(str((end - start).total_seconds())) * nodes / 3600
