"""The costs of boxes, at the prices of their launch, which the journal stores; without data transfer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.journal.facts import BoughtOffer, Price, Usage, hours_of
from gpucloud.journal.records import Box, Holding
from gpucloud.market.cells import paid_cell
from gpucloud.rendering.table import Cell, Table
from gpucloud.rendering.tabular import Tabular
from gpucloud.rendering.texts import duration_text
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_money
from gpucloud_pricing.billing import Billing
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.costs.anomalies import UnusualDay
    from gpucloud.costs.documents import BoxSpendDocument, ChargeDocument, SpendDocument
    from gpucloud_pricing.documents import MoneyDocument

HOURS, GIB_MONTHS = "Hours", "GiB-Months"
PARTS = ("compute", "disk", "address", "snapshot")
STORED = frozenset({"disk", "snapshot"})
"""The parts that are billed by their size."""
Split = Callable[[datetime, datetime], Iterator[tuple[datetime, datetime]]]
"""Splits an interval into the periods of charges."""
BillingOf = Callable[[str], Billing]
"""Gives how a cloud bills, by its name (:meth:`gpucloud.market.catalog.Catalog.billing_of`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The cost of one part of a holding within one month (in UTC).

    Attributes:
        holding: the box, volume or snapshot.
        part: ``compute``, ``disk``, ``address`` or ``snapshot``.
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
        least_quantity: the part of ``quantity`` that is certain. It is less where a machine's end is known by
            an upper limit only: its cloud did not tell the end when somebody looked. It is zero for a
            snapshot: a cloud bills what a snapshot holds, which is at most the size of its disk.
    """

    holding: Holding
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
    least_quantity: Decimal

    @property
    def box(self) -> Box | None:
        """The box whose charge it is; ``None`` for that of a volume or a snapshot."""
        return self.holding if isinstance(self.holding, Box) else None

    @property
    def offer(self) -> BoughtOffer | None:
        """What was bought as that box."""
        return self.box.offer if self.box else None

    @property
    def amount(self) -> Decimal | None:
        """The new spending: zero for what was paid for before; ``None`` if the price is unknown."""
        return self._cost(self.quantity)

    @property
    def least_amount(self) -> Decimal | None:
        """The part of :attr:`amount` that is certain: less if the end is known by an upper limit only."""
        return self._cost(self.least_quantity)

    @property
    def is_at_most(self) -> bool:
        """Whether :attr:`amount` is an upper limit."""
        return self.amount != self.least_amount

    def _cost(self, quantity: Decimal) -> Decimal | None:
        if self.paid_before:
            return Decimal(0)
        return None if self.unit_price is None else self.unit_price * quantity

    @property
    def unknown(self) -> str | None:
        """Why the cost is unknown; ``None`` if it is known."""
        if self.unit_price is not None:
            return None
        if self.part in STORED and self.source is not None:
            return "the size of the disk is not known"
        place = self.holding.place
        where = f" in {place.cloud} {place.region}" if place else ""
        return f"no {self.part} price{where} was known at the launch"

    def document(self) -> ChargeDocument:
        """A charge of ``gpucloud.spend/v1``."""
        amount, least = self.amount, self.least_amount
        return {
            "part": self.part,
            "from": rfc3339(self.start),
            "to": rfc3339(self.end),
            "quantity": float(round(self.quantity, 6)),
            "unit": self.unit,
            "unit_price": self._money(self.unit_price),
            "amount": self._money(amount and round(amount, 6)),
            "at_least": self._money(least and round(least, 6)),
            "unknown": self.unknown,
            "as_of": self.as_of,
            "source": self.source,
        }

    def _money(self, amount: Decimal | None) -> MoneyDocument | None:
        return None if amount is None else Money(amount=amount, currency=self.currency).document()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpend:
    """The cost of one box, volume or snapshot: its charges, oldest first."""

    holding: Holding
    charges: Sequence[Charge]

    def document(self) -> BoxSpendDocument:
        """A box of ``gpucloud.spend/v1``."""
        holding, place = self.holding, self.holding.place
        run_id, offer = (holding.run_id, holding.offer) if isinstance(holding, Box) else (None, None)
        return {
            "name": holding.name,
            "kind": str(holding.kind),
            "id": holding.id,
            "run_id": run_id,
            "state": str(holding.state),
            "cloud": place.cloud if place else None,
            "region": place.region if place else None,
            "instance_type": offer.instance_type if offer else None,
            "purchase": str(offer.purchase) if offer else None,
            "charges": [charge.document() for charge in self.charges],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend(Tabular):
    """The cost of boxes, with those that have ended, from ``since`` on.

    ``unusual_days`` are those of the last 7 on which all of these owners' boxes have cost more than is usual.
    """

    since: datetime | None
    boxes: Sequence[BoxSpend]
    unusual_days: Sequence[UnusualDay] = ()

    @property
    def charges(self) -> list[Charge]:
        """The charges of all boxes."""
        return [charge for box in self.boxes for charge in box.charges]

    @property
    def totals(self) -> list[Money]:
        """The known amounts, by currency."""
        return totals_of(self.charges)

    def table(self) -> Table:
        """The table of ``gpucloud spend``: what each box has cost, by parts."""
        charged = {charge.part for charge in self.charges}
        parts = [part for part in PARTS if part != "snapshot" or part in charged]
        found = [each.charges for each in self.boxes]
        holdings = [each.holding for each in self.boxes]
        columns: dict[str, Sequence[object]] = {
            "BOX": [each.name for each in holdings],
            "FROM": [rfc3339(charges[0].start) for charges in found],
            "FOR": [duration_text(charges[-1].end - charges[0].start) for charges in found],
            "WHERE": [f"{each.place.cloud} {each.place.region}" if each.place else None for each in holdings],
            "TYPE": [_bought_text(each) for each in holdings],
            "PAID AS": [_paid_cell(each) for each in holdings],
            "COST": [_cost_text(charges) for charges in found],
            **{part.upper(): [_part_text(charges, part) for charges in found] for part in parts},
        }
        headings = [part.upper() for part in parts]
        optional = ("PAID AS", "TYPE", "FROM", *reversed(headings))
        return Table(columns, right=("FOR", "COST", *headings), optional=optional)

    def document(self) -> SpendDocument:
        """The fields of ``gpucloud.spend/v1``."""
        return {
            "since": rfc3339(self.since) if self.since else None,
            "boxes": [box.document() for box in self.boxes],
            "totals": [total.document() for total in self.totals],
            "unusual_days": [day.document() for day in self.unusual_days],
        }


def totals_of(charges: Iterable[Charge], places: int = 4) -> list[Money]:
    """The known amounts of charges by currency, rounded to decimal places; zero only if all are zero."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for charge in charges:
        totals[charge.currency] += charge.amount or Decimal(0)
    names = sorted(name for name in totals if totals[name]) or sorted(totals)[:1]
    return [Money(amount=round(totals[name], places), currency=name) for name in names]


def spend_of(
    holdings: Iterable[Holding], since: datetime | None, now: datetime, billing_of: BillingOf
) -> Spend:
    """The cost of holdings, without those that cost nothing. Arguments as :func:`charges`."""
    found = [
        BoxSpend(holding=each, charges=tuple(charges(each, since, now, billing_of))) for each in holdings
    ]
    return Spend(since=since, boxes=[each for each in found if each.charges])


def charges(
    holding: Holding, since: datetime | None, now: datetime, billing_of: BillingOf, split: Split | None = None
) -> Iterator[Charge]:
    """The charges of a holding, by month, part, price and region; empty for one that was never billed.

    They are those of every machine that it ever had: nodes, machines that were replaced, failed attempts.

    Args:
        holding: the box, volume or snapshot.
        since: the start; earlier charges are left out.
        now: the end of the charges of one that lives.
        billing_of: how a cloud bills.
        split: the periods of charges within months; by default, whole months.
    """
    groups: dict[tuple[str, Price | None, str | None, str | None], list[Usage]] = {}
    for usage in sorted(holding.usage, key=lambda each: PARTS.index(each.part)):
        groups.setdefault((usage.part, usage.price, usage.cloud, usage.region), []).append(usage)
    found = [
        _charge(holding, billing_of(usages[0].cloud or holding.cloud), usages, start, end)
        for usages in groups.values()
        for start, end in (split or months)(*_span(usages, since, now))
    ]
    yield from sorted(found, key=lambda charge: first_of_month(charge.start))


def _span(usages: Sequence[Usage], since: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """The start of the first and the end of the last of some intervals."""
    start = min(usage.start for usage in usages)
    return start if since is None else max(since, start), max(usage.end or now for usage in usages)


def _charge(
    holding: Holding, billing: Billing, usages: Sequence[Usage], start: datetime, end: datetime
) -> Charge:
    """The charge for intervals of one part, at one price, within one month."""
    first = usages[0]
    price = first.price
    hours = sum((hours_of(usage, end, start) for usage in usages), Decimal(0))
    sure = [_certain(holding, usage) for usage in usages]
    if any(each is not usage for each, usage in zip(sure, usages, strict=True)):
        certain = sum((hours_of(usage, end, start) for usage in sure), Decimal(0))
    else:
        certain = hours
    gib = _billed_gib(billing, first)
    known = price is not None and gib != 0
    return Charge(
        holding=holding,
        part=first.part,
        start=start,
        end=end,
        quantity=hours if gib is None else hours * gib / HOURS_PER_MONTH,
        least_quantity=certain if gib is None else certain * gib / HOURS_PER_MONTH,
        unit=HOURS if gib is None else GIB_MONTHS,
        unit_price=price.amount if price and known else None,
        currency=price.currency if price else holding.currency,
        as_of=price.as_of.isoformat() if price and price.as_of else None,
        source=price.source if price else None,
        vendor=billing.vendor or first.cloud or holding.cloud,
        paid_before=first.paid_before,
    )


def _billed_gib(billing: Billing, usage: Usage) -> int | None:
    """The size that is billed, zero if it is unknown; ``None`` for what has no size."""
    if usage.part not in STORED:
        return None
    gib = usage.gib or 0
    return billing.disk_gib(gib) if usage.part == "disk" else gib


def _certain(holding: Holding, usage: Usage) -> Usage:
    """The certain part of an interval.

    Where its end is an upper limit, it is the time until its machine was last seen to be billed. None of a
    snapshot's is certain.
    """
    if usage.part == "snapshot":
        return replace(usage, end=usage.start)
    until = holding.billed_until.get(usage.resource) if isinstance(holding, Box) else None
    if until is None or usage.end is None or usage.end <= until:
        return usage
    return replace(usage, end=max(usage.start, until))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSoFar:
    """The cost so far: ``amount``, of which ``least`` is certain. They differ if its end is not known."""

    amount: Money
    least: Money


def cost_so_far(holding: Holding, now: datetime, billing_of: BillingOf) -> CostSoFar | None:
    """The cost of a holding until now, in the currency of its compute; ``None`` if no part of it has a price.

    Parts without a known price are left out; capacity that was paid for before the launch costs nothing.
    """
    found = [
        (charge.amount, charge.least_amount)
        for charge in charges(holding, None, now, billing_of)
        if charge.currency == holding.currency
    ]
    known = [(amount, least) for amount, least in found if amount is not None and least is not None]
    if not known:
        return None
    amount, least = (
        Money(amount=round(sum(column, Decimal(0)), 4), currency=holding.currency)
        for column in zip(*known, strict=True)
    )
    return CostSoFar(amount=amount, least=least)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerHour:
    """The present spending on a holding per hour: what of its machines, disks, addresses is billed now.

    A part is ``None`` if its price is unknown; ``total`` is ``None`` then, and if the parts have several
    currencies. Capacity that was paid for before the launch costs nothing.
    """

    total: Money | None
    compute: Money | None
    disk: Money | None
    address: Money | None
    snapshot: Money | None

    @property
    def known(self) -> tuple[Money, ...]:
        """The sums of the known parts, one for each currency; empty if nothing is spent."""
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for part in (self.compute, self.disk, self.address, self.snapshot):
            if part is not None and part.amount:
                sums[part.currency] += part.amount
        return tuple(Money(amount=amount, currency=currency) for currency, amount in sorted(sums.items()))


def per_hour(holding: Holding, billing_of: BillingOf) -> PerHour:
    """The present spending per hour, by the open intervals of usage, which the costs are made of."""
    compute, disk, address, snapshot = parts_now = tuple(
        _rate(holding, [each for each in holding.usage if each.end is None and each.part == part], billing_of)
        for part in PARTS
    )
    parts = PerHour(total=None, compute=compute, disk=disk, address=address, snapshot=snapshot)
    if None in parts_now or len(parts.known) > 1:
        return parts
    nothing = Money(amount=Decimal(0), currency=holding.currency)
    return replace(parts, total=next(iter(parts.known), nothing))


def _rate(holding: Holding, usages: Sequence[Usage], billing_of: BillingOf) -> Money | None:
    """The price per hour of one part, as billed now; ``None`` if it is unknown, or has two currencies."""
    sums: dict[str, Decimal] = {}
    for usage in usages:
        if usage.paid_before:
            continue
        gib = _billed_gib(billing_of(usage.cloud or holding.cloud), usage)
        if usage.price is None or gib == 0:
            return None
        quantity = Decimal(1) if gib is None else Decimal(gib) / HOURS_PER_MONTH
        currency = usage.price.currency
        sums[currency] = sums.get(currency, Decimal(0)) + usage.price.amount * quantity
    if len(sums) > 1:
        return None
    currency, amount = next(iter(sums.items()), (holding.currency, Decimal(0)))
    return Money(amount=round(amount, 6), currency=currency)


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


# --- as texts of a table


def _bought_text(holding: Holding) -> str | None:
    """The type of a box; of what is no box, its kind."""
    if not isinstance(holding, Box):
        return str(holding.kind)
    return holding.offer.instance_type if holding.offer else None


def _paid_cell(holding: Holding) -> Cell | None:
    if not isinstance(holding, Box):
        return None
    return paid_cell(holding.offer.purchase if holding.offer else "?")


def _part_text(found: Sequence[Charge], part: str) -> str | None:
    """What one part has cost in all months; ``?`` where that is not known, ``None`` without such a part."""
    of_part = [charge for charge in found if charge.part == part]
    if not of_part:
        return None
    amounts = [charge.amount for charge in of_part]
    if None in amounts:
        return "?"
    total = format_money(sum(filter(None, amounts), Decimal(0)), of_part[0].currency)
    return limit_mark(of_part) + total


def _cost_text(found: Sequence[Charge]) -> str:
    """What a box has cost in all: "≥" if a part of it is unknown, "≤" if it is a limit, "?" if all is."""
    known = sum((charge.amount for charge in found if charge.amount is not None), Decimal(0))
    if all(charge.amount is None for charge in found):
        return "?"
    unknown = any(charge.amount is None for charge in found)
    return ("≥ " if unknown else limit_mark(found)) + format_money(known, found[0].currency)


def limit_mark(found: Sequence[Charge]) -> str:
    """The mark of a sum that is an upper limit."""
    return "≤ " if any(charge.is_at_most for charge in found) else ""
