"""The costs of boxes, at the prices of their launch, which the journal stores; without data transfer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucloud.journal.facts import Price, Usage, hours_of
from gpucloud.journal.lifecycle import OVER
from gpucloud.resources import State, rfc3339
from gpucloud_pricing.billing import Billing
from gpucloud_pricing.demand import HOURS_PER_MONTH, Purchase
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.journal.records import Box

HOURS, GIB_MONTHS = "Hours", "GiB-Months"
PARTS = ("compute", "disk", "address")
BillingOf = Callable[[str], Billing]
"""Gives how a cloud bills, by its name (:meth:`gpucloud.market.catalog.Catalog.billing_of`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The cost of one part of a box within one month (in UTC).

    Attributes:
        box: the box.
        part: ``compute``, ``disk`` or ``address``.
        start: the start of the charge.
        end: the end of the charge.
        quantity: the amount of the unit, all nodes together.
        unit: :data:`HOURS` or :data:`GIB_MONTHS`.
        unit_price: the price per unit; ``None`` if unknown.
        currency: the currency of the price.
        as_of: the date of the price, if it has one.
        source: an id of the market's sources; for compute, the source of the price.
        vendor: the issuer of the bill.
        paid_before: whether it was paid for before the launch: capacity that the account held.
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
    vendor: str
    paid_before: bool = False

    @property
    def amount(self) -> Decimal | None:
        """The cost; ``None`` if the price is unknown."""
        return None if self.unit_price is None else self.unit_price * self.quantity

    def document(self) -> dict[str, Any]:
        """A charge of ``gpucloud.spend/v1``."""
        amount = self.amount
        return {
            "part": self.part,
            "from": rfc3339(self.start),
            "to": rfc3339(self.end),
            "quantity": float(round(self.quantity, 6)),
            "unit": self.unit,
            "unit_price": self._money(self.unit_price),
            "amount": self._money(amount and round(amount, 6)),
            "as_of": self.as_of,
            "source": self.source,
        }

    def _money(self, amount: Decimal | None) -> dict[str, str] | None:
        return None if amount is None else Money(amount=amount, currency=self.currency).document()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpend:
    """The cost of one box: its charges, oldest first."""

    box: Box
    charges: Sequence[Charge]

    def document(self) -> dict[str, Any]:
        """A box of ``gpucloud.spend/v1``."""
        box, place, offer = self.box, self.box.place, self.box.offer
        return {
            "name": box.name,
            "id": box.id,
            "run_id": box.run_id,
            "state": str(box.state),
            "cloud": place and place.cloud,
            "region": place and place.region,
            "instance_type": offer and offer.instance_type,
            "purchase": offer and str(offer.purchase),
            "charges": [charge.document() for charge in self.charges],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """The cost of boxes, with those that have ended, from ``since`` on."""

    since: datetime | None
    boxes: Sequence[BoxSpend]

    @property
    def charges(self) -> list[Charge]:
        """The charges of all boxes."""
        return [charge for box in self.boxes for charge in box.charges]

    @property
    def totals(self) -> list[Money]:
        """The known amounts, by currency."""
        totals: dict[str, Decimal] = defaultdict(Decimal)
        for charge in self.charges:
            totals[charge.currency] += charge.amount or Decimal(0)
        return [Money(amount=round(totals[name], 4), currency=name) for name in sorted(totals)]

    def document(self) -> dict[str, Any]:
        """The fields of ``gpucloud.spend/v1``."""
        return {
            "since": self.since and rfc3339(self.since),
            "boxes": [box.document() for box in self.boxes],
            "totals": [total.document() for total in self.totals],
        }


def spend_of(boxes: Iterable[Box], since: datetime | None, now: datetime, billing_of: BillingOf) -> Spend:
    """The cost of boxes, without those that cost nothing. Arguments as :func:`charges`."""
    found = [BoxSpend(box=box, charges=tuple(charges(box, since, now, billing_of))) for box in boxes]
    return Spend(since=since, boxes=[each for each in found if each.charges])


def charges(box: Box, since: datetime | None, now: datetime, billing_of: BillingOf) -> Iterator[Charge]:
    """The charges of a box, by month, part and price; empty for one that was never billed.

    Args:
        box: the box.
        since: the start; earlier charges are left out.
        now: the end of the charges of a living box.
        billing_of: how its cloud bills.
    """
    billing = billing_of(box.cloud)
    groups: dict[tuple[str, Price | None], list[Usage]] = {}
    for usage in sorted(box.usage, key=lambda each: PARTS.index(each.part)):
        groups.setdefault((usage.part, usage.price), []).append(usage)
    found = [
        _charge(box, billing, usages, start, end)
        for usages in groups.values()
        for start, end in months(*_span(usages, since, now))
    ]
    yield from sorted(found, key=lambda charge: first_of_month(charge.start))


def _span(usages: Sequence[Usage], since: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """The start of the first and the end of the last of some intervals."""
    start = min(usage.start for usage in usages)
    return start if since is None else max(since, start), max(usage.end or now for usage in usages)


def _charge(box: Box, billing: Billing, usages: Sequence[Usage], start: datetime, end: datetime) -> Charge:
    """The charge for intervals of one part, at one price, within one month."""
    first = usages[0]
    price = first.price
    hours = sum((hours_of(usage, end, start) for usage in usages), Decimal(0))
    gib = None if first.part != "disk" else billing.disk_gib(first.gib or 0)
    known = price is not None and (first.part != "disk" or bool(first.gib))
    return Charge(
        box=box,
        part=first.part,
        start=start,
        end=end,
        quantity=hours if gib is None else hours * gib / HOURS_PER_MONTH,
        unit=HOURS if gib is None else GIB_MONTHS,
        unit_price=price.amount if price and known else None,
        currency=price.currency if price else "USD",
        as_of=price.as_of.isoformat() if price and price.as_of else None,
        source=price.source if price else None,
        vendor=billing.vendor or box.cloud,
        paid_before=first.paid_before,
    )


def cost_so_far(box: Box, now: datetime, billing_of: BillingOf) -> Money | None:
    """The cost of a box until now, in the currency of its compute; ``None`` if no part of it has a price.

    Parts without a known price are left out, and so is capacity that was paid for before the launch.
    """
    amounts = [
        charge.amount
        for charge in charges(box, None, now, billing_of)
        if charge.amount is not None and charge.currency == box.currency and not charge.paid_before
    ]
    return Money(amount=round(sum(amounts, Decimal(0)), 4), currency=box.currency) if amounts else None


def paid_per_hour(box: Box, billing_of: BillingOf) -> dict[str, Decimal]:
    """The present spending on a box per hour, by currency: the parts of :func:`per_hour` with a known price.

    The compute of held capacity was paid for before the launch, and is left out.
    """
    parts = per_hour(box, billing_of)
    held = box.offer is not None and box.offer.purchase is Purchase.RESERVED
    sums: dict[str, Decimal] = {}
    for part in (None if held else parts.compute, parts.disk, parts.address):
        if part is not None and part.amount:
            sums[part.currency] = sums.get(part.currency, Decimal(0)) + part.amount
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class PerHour:
    """The present price of a box per hour, all nodes together, by its machines' last known state.

    A part is ``None`` if its price is unknown; ``total`` is ``None`` then, and if the parts have several
    currencies. All are zero for a box that has ended.
    """

    total: Money | None
    compute: Money | None
    disk: Money | None
    address: Money | None


def per_hour(box: Box, billing_of: BillingOf) -> PerHour:
    """The present price of a box per hour: its machines while billed, disks and addresses while kept."""
    nodes = box.nodes if box.state not in OVER else ()
    billed = sum(node.billed for node in nodes)
    kept = sum(node.state is not State.GONE for node in nodes)
    gib_months = billing_of(box.cloud).disk_gib(box.wanted.disk_gib or 0) / HOURS_PER_MONTH
    parts = [
        _times(box, box.price, Decimal(billed)),
        _times(box, box.listed.get("disk_gb_month") if gib_months else None, kept * gib_months),
        _times(box, box.listed.get("public_ip_hour"), Decimal(kept)),
    ]
    known = [part for part in parts if part is not None]
    total = None
    if len(known) == len(parts) and len({part.currency for part in known if part.amount}) <= 1:
        currency = next((part.currency for part in known if part.amount), box.currency)
        total = Money(amount=sum((part.amount for part in known), Decimal(0)), currency=currency)
    return PerHour(total=total, compute=parts[0], disk=parts[1], address=parts[2])


def _times(box: Box, price: Price | None, quantity: Decimal) -> Money | None:
    if price is None:
        return Money(amount=Decimal(0), currency=box.currency) if not box.nodes or box.state in OVER else None
    return Money(amount=round(price.amount * quantity, 6), currency=price.currency)


def months(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """An interval, split at the starts of months in UTC."""
    while start < end:
        following = first_of_next_month(start)
        yield start, min(following, end)
        start = following


def first_of_month(at: datetime) -> datetime:
    """The start of the month of a moment, in UTC."""
    day = at.astimezone(UTC)
    return datetime(day.year, day.month, 1, tzinfo=UTC)


def first_of_next_month(at: datetime) -> datetime:
    """The start of the month after that of a moment, in UTC."""
    day = at.astimezone(UTC)
    return datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
