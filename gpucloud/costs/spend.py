"""What boxes have cost, at the prices of their launch: the journal holds them. What was sent to the internet
is not known here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucloud.journal.lifecycle import OVER
from gpucloud.resources import State
from gpucloud_pricing.billing import billed_disk_gib
from gpucloud_pricing.demand import HOURS_PER_MONTH
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.journal.store import Box

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

    @property
    def amount(self) -> Decimal | None:
        """What it has cost; ``None`` where the price is not known."""
        return None if self.unit_price is None else self.unit_price * self.quantity


def charges(box: Box, since: datetime | None, now: datetime) -> Iterator[Charge]:
    """What a box has cost, by part and month; nothing, of one that never began to be billed.

    Args:
        box: the box.
        since: what was before is left out.
        now: until when it is billed, while it lives.
    """
    if box.started_at is None:
        return
    begin = box.started_at if since is None else max(since, box.started_at)
    until = box.ended_at or now
    compute_end, end_of_rest = max(box.node_ends(until)), max(box.node_ends(until, kept=True))
    for start, end in months(begin, max(compute_end, end_of_rest)):
        if start < compute_end:
            yield _compute(box, start, min(end, compute_end))
        if start < end_of_rest:
            yield _disk(box, start, min(end, end_of_rest))
            yield _address(box, start, min(end, end_of_rest))


def paid_per_hour(box: Box) -> dict[str, Decimal]:
    """What is paid for a box per hour as its machines were last seen, by currency.

    That is their compute. Of one that is switched off and not billed, it is the disk and the address, which
    the cloud keeps for it. A box that is over is not paid for.
    """
    sums: dict[str, Decimal] = {}

    def add(amount: Decimal | None, currency: str) -> None:
        if amount is not None:
            sums[currency] = sums.get(currency, Decimal(0)) + amount

    for node in (box.facts.get("nodes") or ()) if box.state not in OVER else ():
        if node.get("billed", True):
            add(box.price_per_hour, _currency(box))
        elif node.get("state") == State.STOPPED:
            disk, address = _listed(box, "disk_gb_month"), _listed(box, "public_ip_hour")
            gib = billed_disk_gib(str(box.facts.get("cloud")), box.facts.get("disk_gib") or 0)
            add(disk["unit_price"] and disk["unit_price"] * gib / HOURS_PER_MONTH, disk["currency"])
            add(address["unit_price"], address["currency"])
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class PerHour:
    """What is paid for a box per hour, all nodes together, as its machines were last seen.

    A part is ``None`` where its price is not known; so is ``total`` then, and where the parts have several
    currencies. Of a box that is over all are zero.
    """

    total: Money | None
    compute: Money | None
    disk: Money | None
    address: Money | None


def per_hour(box: Box) -> PerHour:
    """What is paid for a box per hour: its machines while they are billed, disks and addresses while kept."""
    nodes: Sequence[dict[str, Any]] = (box.facts.get("nodes") or ()) if box.state not in OVER else ()
    billed = sum(bool(node.get("billed", True)) for node in nodes)
    kept = sum(node.get("state") != State.GONE for node in nodes)
    disk, address = _listed(box, "disk_gb_month"), _listed(box, "public_ip_hour")
    gib = box.facts.get("disk_gib")
    billed_gib = billed_disk_gib(str(box.facts.get("cloud")), gib or 0)
    a_disk = disk["unit_price"] * billed_gib / HOURS_PER_MONTH if disk["unit_price"] and gib else None
    parts = [
        _times(box.price_per_hour, _currency(box), billed),
        _times(a_disk, disk["currency"] if kept else _currency(box), kept),
        _times(address["unit_price"], address["currency"] if kept else _currency(box), kept),
    ]
    known = [part for part in parts if part is not None]
    total = None
    if len(known) == len(parts) and len({part.currency for part in known}) == 1:
        total = Money(amount=sum((part.amount for part in known), Decimal(0)), currency=known[0].currency)
    return PerHour(total=total, compute=parts[0], disk=parts[1], address=parts[2])


def _times(price: Decimal | None, currency: str, count: int) -> Money | None:
    if not count:
        return Money(amount=Decimal(0), currency=currency)
    return None if price is None else Money(amount=round(price * count, 6), currency=currency)


def _currency(box: Box) -> str:
    price: dict[str, Any] = box.facts.get("price") or {}
    return str(price.get("currency", "USD"))


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
    return Charge(
        box=box,
        part="compute",
        start=start,
        end=end,
        quantity=_hours(start, end, box.node_ends(end)),
        unit=HOURS,
        unit_price=box.price_per_hour,
        currency=_currency(box),
        as_of=facts.get("price_as_of"),
        source=facts.get("price_source"),
    )


def _disk(box: Box, start: datetime, end: datetime) -> Charge:
    gib: int | None = box.facts.get("disk_gib")
    billed = billed_disk_gib(str(box.facts.get("cloud")), gib or 0)
    charge = Charge(
        box=box,
        part="disk",
        start=start,
        end=end,
        quantity=_hours(start, end, box.node_ends(end, kept=True)) * billed / HOURS_PER_MONTH,
        unit=GIB_MONTHS,
        **_listed(box, "disk_gb_month"),
    )
    return charge if gib else replace(charge, unit_price=None)


def _address(box: Box, start: datetime, end: datetime) -> Charge:
    return Charge(
        box=box,
        part="address",
        start=start,
        end=end,
        quantity=_hours(start, end, box.node_ends(end, kept=True)),
        unit=HOURS,
        **_listed(box, "public_ip_hour"),
    )


def _listed(box: Box, kind: str) -> dict[str, Any]:
    """The list price of a part at the launch, where one was known; see ``resource_prices.listed_prices``."""
    listed: dict[str, dict[str, str]] = box.facts.get("listed") or {}
    price = listed.get(kind, {})
    return {
        "unit_price": Decimal(price["amount"]) if price else None,
        "currency": price.get("currency", "USD"),
        "as_of": price.get("as_of"),
        "source": price.get("source"),
    }


def _hours(start: datetime, end: datetime, ends: Sequence[datetime]) -> Decimal:
    """How long several things were billed in all within a stretch of time."""
    return Decimal(str(sum(max((min(each, end) - start).total_seconds(), 0.0) for each in ends))) / 3600
