"""The values of the market: instance types, regions, prices, and offers that combine them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.billing import NOTHING_SPECIAL, Billing
from gpucloud_pricing.purchases import KINDS, PurchaseKind

if TYPE_CHECKING:
    from gpucloud_pricing.documents import (
        InterruptionDocument,
        MoneyDocument,
        OfferDocument,
        RateDocument,
        SubjectDocument,
    )


class UnsuitableError(ValueError):
    """A machine or a way of paying that cannot serve a usage, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """An amount in the currency that the cloud bills in."""

    amount: Decimal
    currency: str

    def document(self) -> MoneyDocument:
        """For JSON: a decimal string and the currency."""
        return {"amount": f"{self.amount:f}", "currency": self.currency}


def format_money(amount: Decimal | None, currency: str = "USD") -> str:
    """An amount for people: two decimals, four below 10 (``$0.5260``, ``CNY 229.00``, ``?`` if unknown)."""
    if amount is None:
        return "?"
    digits = 4 if abs(amount) < 10 else 2
    return f"{'$' if currency == 'USD' else currency + ' '}{amount:,.{digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A reference exchange rate: one unit of ``base`` is ``rate`` of ``quote``."""

    base: str
    quote: str
    rate: Decimal
    as_of: date
    source: str

    def document(self) -> RateDocument:
        """The rate for JSON."""
        return {
            "base": self.base,
            "quote": self.quote,
            "rate": float(self.rate),
            "as_of": self.as_of.isoformat(),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a figure; ``live`` for refreshed ones, which are not shipped.

    ``url`` is a page with the same figures for people, if the source itself is none.
    """

    id: str
    repository: str
    path: str
    commit: str
    date: str
    licence: str
    note: str
    live: bool = False
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The status of a type at its cloud; ``effective`` is when a retirement takes effect."""

    status: str
    effective: date | None
    note: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One size of one cloud. Memory is in GiB; ``gpu_memory_gib`` is of one whole GPU.

    ``gpu_model`` is the vocabulary's name; ``gpu_memory_gib`` distinguishes sizes of memory.
    ``network_gbps`` and ``local_ssd_gib`` are ``None`` if no source has them. ``billing`` is how its cloud
    bills.
    """

    cloud: str
    name: str
    gpu_model: str
    gpu_count: Decimal
    gpu_memory_gib: Decimal
    vcpus: int
    memory_gib: Decimal
    interconnect: str = "none"
    rdma: str = "none"
    arch: str = "x86_64"
    network_gbps: Decimal | None = None
    local_ssd_gib: Decimal | None = None
    source: str = ""
    notes: tuple[Note, ...] = ()
    billing: Billing = NOTHING_SPECIAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region of one cloud.

    ``geos`` are its geo groups, in lower case (``na``, ``us``). ``partition`` is the prefix of the regions of
    a partition that needs an account of its own (``us-gov-``), otherwise empty. ``opt_in_zones`` is a regular
    expression for the prefix of zones that an account must opt in to; empty if there are none.
    """

    cloud: str
    name: str
    display_name: str = ""
    geos: frozenset[str] = frozenset()
    partition: str = ""
    opt_in_zones: str = ""
    zones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One price of one type, per hour and instance. ``zone`` is ``None`` for a regional price.

    A commitment's ``amount`` is the price of an hour of its term, with its share of the ``upfront`` payment
    for the whole term and one instance; of a subscription, that is the price of the month or year. ``terms``
    are further terms of the way of paying: ``all upfront``.
    ``discount`` is the share that the user's own conditions take off. ``derivation`` is how it follows from
    other prices, if it is not a list price.
    """

    cloud: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    amount: Decimal
    currency: str
    as_of: date
    source: str
    terms: str = ""
    upfront: Decimal = Decimal(0)
    discount: Decimal = Decimal(0)
    derivation: Derivation | None = None

    @property
    def net(self) -> Decimal:
        """The amount after the discount."""
        return self.amount * (1 - self.discount) if self.discount else self.amount

    @property
    def money(self) -> Money:
        """The amount with its currency."""
        return Money(amount=self.amount, currency=self.currency)

    def subject(self) -> SubjectDocument:
        """The offer of the price, for JSON; without the amount."""
        return {
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone,
            "instance_type": self.instance_type,
            "purchase": self.purchase,
            "terms": self.terms or None,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """How a price follows from others: a formula for people, and the prices in it."""

    formula: str
    prices: tuple[Price, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsPlan:
    """A commitment to spend an amount every hour, used or not.

    ``purchase`` and ``terms`` are those of the market's prices at which it is used up. ``family`` is the
    prefix of the covered types, up to a dot; ``None`` for all types.
    """

    per_hour: Money
    purchase: str
    terms: str
    family: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """A paid or promised commitment of an account: machines of a type, or the spending of a plan.

    Attributes:
        cloud: the provider's name.
        kind: reserved_instance, reservation, capacity_reservation, capacity_block, savings_plan, or machine.
        id: the cloud's own id; empty for a commitment from the user's file.
        region: the region; ``None`` for every region of the cloud.
        zone: the zone; ``None`` for every zone of the region.
        instance_type: the type of the machines; ``None`` for a plan.
        count: the number of machines.
        plan: the savings plan, if it is one.
        until: the last day that is covered completely, in UTC; ``None`` for no end.
        as_of: the date of the data.
        source: an id of the market's sources.
    """

    cloud: str
    kind: str
    id: str
    region: str | None
    zone: str | None = None
    instance_type: str | None = None
    count: int = 1
    plan: SavingsPlan | None = None
    until: date | None
    as_of: date
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """The band of spot interruptions that a cloud publishes: from ``low`` to ``high`` percent of a month.

    What these are percent of is not published; the readings are those of
    :func:`gpucloud_pricing.interruptions.band_rate`.
    """

    low: int
    high: int
    savings_percent: int
    as_of: date
    source: str

    def document(self) -> InterruptionDocument:
        """The band for JSON."""
        return {
            "percent_per_month": [self.low, self.high],
            "as_of": self.as_of.isoformat(),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """A user's own history on spot, with one type in one region.

    Attributes:
        hours: the hours that machines ran, as far as somebody looked.
        interruptions: how many of these machines the cloud took back.
        since: the day of the first start.
        until: the day of the last hour.
    """

    hours: float
    interruptions: int
    since: date
    until: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An offer to rent: a type, in a place, with a way of paying.

    ``zone`` is ``None`` if no zone that offers the type is known; AWS zones are AZ ids, or groups of Local
    or Wavelength Zones. ``quote`` is the listed price, ``price_usd`` the same per hour and instance in USD at
    the reference rate, unrounded; both are ``None`` if no price is known. ``experience`` is set by who knows
    the user's own history.
    """

    kind: InstanceType
    region: str
    zone: str | None
    purchase: str
    quote: Price | None
    price_usd: Decimal | None
    flags: tuple[str, ...] = ()
    interruption: Interruption | None = None
    experience: Experience | None = None

    @property
    def cloud(self) -> str:
        """Provider's name."""
        return self.kind.cloud

    @property
    def instance_type(self) -> str:
        """Name of the type with its cloud."""
        return self.kind.name

    @property
    def gpu_model(self) -> str:
        """Name in the vocabulary."""
        return self.kind.gpu_model

    @property
    def gpu_count(self) -> Decimal:
        """GPUs, or the share of one."""
        return self.kind.gpu_count

    @property
    def gpu_memory_gib(self) -> Decimal:
        """The memory of one whole GPU."""
        return self.kind.gpu_memory_gib

    @property
    def vcpus(self) -> int:
        """The vCPUs of the instance."""
        return self.kind.vcpus

    @property
    def memory_gib(self) -> Decimal:
        """Main memory."""
        return self.kind.memory_gib

    @property
    def interconnect(self) -> str:
        """The interconnect between the GPUs."""
        return self.kind.interconnect

    @property
    def rdma(self) -> str:
        """The network between instances."""
        return self.kind.rdma

    @property
    def arch(self) -> str:
        """The processor's architecture."""
        return self.kind.arch

    @property
    def price(self) -> Money | None:
        """Per hour and instance, in the currency that the cloud bills in."""
        return None if self.quote is None else self.quote.money

    @property
    def terms(self) -> str:
        """Further terms of the way of paying: ``all upfront``."""
        return self.quote.terms if self.quote else ""

    @property
    def as_of(self) -> date | None:
        """The date of the price."""
        return self.quote.as_of if self.quote else None

    @property
    def source(self) -> str | None:
        """The source of the price: an id of the market's sources."""
        return self.quote.source if self.quote else None

    @property
    def unknown(self) -> dict[str, str]:
        """The unknown fields of this offer, and why they are unknown."""
        reasons: dict[str, str] = {}
        if self.quote is None:
            reasons["price"] = "the type is offered here, but no public price is known"
        elif self.price_usd is None:
            reasons["price_usd"] = f"no reference rate from {self.quote.currency} to USD"
        if self.zone is None:
            reasons["zone"] = "which zones offer the type is not known; the price is the region's"
        if self.paid_as.interruptible and self.interruption is None:
            reasons["interruption"] = "no interruption rate is known"
        return reasons

    @property
    def paid_as(self) -> PurchaseKind:
        """The row of its way of paying."""
        return KINDS[self.purchase]

    @property
    def to_buy(self) -> bool:
        """Whether this is a commitment that must be bought first; such an offer is never launchable."""
        return self.paid_as.to_buy

    def document(self) -> OfferDocument:
        """The offer for JSON."""
        usd = None if self.price_usd is None else usd_document(self.price_usd)
        per_gpu = None if self.price_usd is None else usd_document(self.price_usd / self.gpu_count)
        document: OfferDocument = {
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone,
            "instance_type": self.instance_type,
            "gpu": {
                "model": self.gpu_model,
                "count": number(self.gpu_count),
                "memory_gib": number(self.gpu_memory_gib),
            },
            "vcpus": self.vcpus,
            "memory_gib": number(self.memory_gib),
            "interconnect": self.interconnect,
            "rdma": self.rdma,
            "arch": self.arch,
            "purchase": self.purchase,
            "price": self.price.document() if self.price else None,
            "price_usd": usd,
            "price_per_gpu_usd": per_gpu,
            "as_of": self.as_of.isoformat() if self.as_of else None,
            "source": self.source,
            "flags": list(self.flags),
            "to_buy": self.to_buy,
        }
        if self.quote is not None and self.quote.discount:
            document["own_discount_percent"] = number(self.quote.discount * 100)
        if self.to_buy and self.quote is not None:
            upfront = Money(amount=self.quote.upfront, currency=self.quote.currency)
            document["terms"], document["upfront"] = self.terms or None, upfront.document()
        if self.paid_as.interruptible:
            document["interruption"] = self.interruption.document() if self.interruption else None
        if self.unknown:
            document["unknown"] = self.unknown
        return document


def usd_document(amount: Decimal) -> MoneyDocument:
    """An amount of USD for JSON: computed amounts are rounded to a millionth, listed digits stay."""
    rounded = amount if -amount.as_tuple().exponent <= 6 else amount.quantize(Decimal("0.000001"))  # type: ignore[operator]
    return Money(amount=rounded, currency="USD").document()


def number(value: Decimal) -> int | float:
    """A size or count as a JSON number: an integer if it is whole."""
    return int(value) if value == value.to_integral_value() else float(value)
