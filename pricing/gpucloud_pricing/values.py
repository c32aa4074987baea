"""The values of the market: instance types, regions, prices, and the offers that they make together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from gpucloud_pricing.billing import NOTHING_SPECIAL, Billing
from gpucloud_pricing.demand import COMMITMENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """An amount in the currency that the cloud bills in."""

    amount: Decimal
    currency: str

    def document(self) -> dict[str, str]:
        """The contract's form: a decimal string and the currency."""
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

    def document(self) -> dict[str, str]:
        """The rate as the contract writes it in JSON."""
        return {
            "base": self.base,
            "quote": self.quote,
            "rate": f"{self.rate}",
            "as_of": self.as_of.isoformat(),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a figure was read; ``live`` ones were asked for from here, and not shipped."""

    id: str
    repository: str
    path: str
    commit: str
    date: str
    licence: str
    note: str
    live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What is known of a type's standing with its cloud; ``effective`` is when a retirement takes effect."""

    status: str
    effective: date | None
    note: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One size of one cloud. Memory is in GiB; ``gpu_memory_gib`` is of one whole GPU.

    ``gpu_model`` is the vocabulary's name; sizes of memory are told apart by ``gpu_memory_gib``.
    ``network_gbps`` and ``local_ssd_gib`` are ``None`` where no source states them. ``billing`` is how its
    cloud bills.
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

    ``geos`` are the groups it belongs to, in lower case (``na``, ``us``). ``partition`` is the beginning of
    the names of a partition that needs an account of its own (``us-gov-``), else empty. ``opt_in_zones`` is a
    regular expression of how the names of zones begin that an account must opt in to; empty where none are.
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

    A commitment's ``amount`` is what an hour of its term costs, with its share of what is paid ``upfront``,
    for the whole term and one instance. ``terms`` tells apart what else has one name: ``all upfront``.
    ``discount`` is which part of it somebody need not pay, by conditions of their own. ``derivation`` says
    how it follows from other prices, where nobody lists it.
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

    def subject(self) -> dict[str, str | None]:
        """What the price is of, as the contract writes it in JSON; the amount stands beside it."""
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
    """Spending that was promised for every hour, used or not.

    ``purchase`` and ``terms`` are those of the market's prices at which it is used up. ``family`` is what the
    names of the types in reach begin with, up to a dot; ``None`` for all types.
    """

    per_hour: Money
    purchase: str
    terms: str
    family: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """What somebody has paid for, or has promised to pay: machines of a type, or the spending of a plan.

    Attributes:
        cloud: the provider's name.
        kind: reserved_instance, reservation, capacity_reservation, capacity_block, savings_plan, or machine.
        id: the cloud's own; empty for what no cloud told.
        region: where; ``None`` for every region of the cloud.
        zone: likewise; ``None`` for every zone of the region.
        instance_type: of the machines; ``None`` for a plan.
        count: how many machines.
        plan: the spending, where it is no machines.
        until: the last day that is covered to its end, in UTC; ``None`` for no end.
        as_of: when that was told.
        source: by what: an id of the market's sources.
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
    """How often spot instances were taken back: percent per month, from ``low`` to ``high``."""

    low: int
    high: int
    savings_percent: int
    as_of: date
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """A price beside the compute.

    ``kind`` is disk_gb_month, egress_gb or public_ip_hour; ``region`` ``*`` is every region; ``as_of`` is
    ``None`` where the source states no date.
    """

    cloud: str
    region: str
    kind: str
    sku: str
    amount: Decimal
    currency: str
    as_of: date | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that can be rented: a type, in a place, paid in one way.

    ``zone`` is ``None`` where no zone that offers the type is known; AWS zones are AZ ids, or groups of Local
    or Wavelength Zones. ``quote`` is the listed price, ``price_usd`` the same per hour and instance in USD at
    the reference rate, unrounded; both are ``None`` where no price is known.
    """

    kind: InstanceType
    region: str
    zone: str | None
    purchase: str
    quote: Price | None
    price_usd: Decimal | None
    flags: tuple[str, ...] = ()
    interruption: Interruption | None = None

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
        """Of one whole GPU."""
        return self.kind.gpu_memory_gib

    @property
    def vcpus(self) -> int:
        """Of the instance."""
        return self.kind.vcpus

    @property
    def memory_gib(self) -> Decimal:
        """Main memory."""
        return self.kind.memory_gib

    @property
    def interconnect(self) -> str:
        """What joins the GPUs."""
        return self.kind.interconnect

    @property
    def rdma(self) -> str:
        """The network between instances."""
        return self.kind.rdma

    @property
    def arch(self) -> str:
        """Of the processor."""
        return self.kind.arch

    @property
    def price(self) -> Money | None:
        """Per hour and instance, in the currency that the cloud bills in."""
        return None if self.quote is None else self.quote.money

    @property
    def terms(self) -> str:
        """What else belongs to the way of paying: ``all upfront``."""
        return self.quote.terms if self.quote else ""

    @property
    def as_of(self) -> date | None:
        """The date of the price."""
        return self.quote.as_of if self.quote else None

    @property
    def source(self) -> str | None:
        """Where the price was read: an id of the market's sources."""
        return self.quote.source if self.quote else None

    @property
    def unknown(self) -> dict[str, str]:
        """What is not known of this offer, and why."""
        reasons: dict[str, str] = {}
        if self.quote is None:
            reasons["price"] = "the type is offered here, but no public price is known"
        elif self.price_usd is None:
            reasons["price_usd"] = f"no reference rate from {self.quote.currency} to USD"
        if self.zone is None:
            reasons["zone"] = "which zones offer the type is not known; the price is the region's"
        if self.purchase == "spot" and self.interruption is None:
            reasons["interruption"] = "no interruption rate is known"
        return reasons

    @property
    def to_buy(self) -> bool:
        """Whether this is a commitment that would have to be bought; such an offer is never launchable."""
        return self.purchase in COMMITMENTS

    def document(self) -> dict[str, Any]:
        """The offer as the contract writes it in JSON."""
        usd = None if self.price_usd is None else usd_document(self.price_usd)
        per_gpu = None if self.price_usd is None else usd_document(self.price_usd / self.gpu_count)
        document: dict[str, Any] = {
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
            "price": self.price and self.price.document(),
            "price_usd": usd,
            "price_per_gpu_usd": per_gpu,
            "as_of": self.as_of and self.as_of.isoformat(),
            "source": self.source,
            "flags": list(self.flags),
            "to_buy": self.to_buy,
        }
        if self.quote is not None and self.quote.discount:
            document["own_discount_percent"] = number(self.quote.discount * 100)
        if self.to_buy and self.quote is not None:
            upfront = Money(amount=self.quote.upfront, currency=self.quote.currency)
            document |= {"terms": self.terms or None, "upfront": upfront.document()}
        if self.purchase == "spot":
            document["interruption"] = self.interruption and {
                "percent_per_month": [self.interruption.low, self.interruption.high],
                "as_of": self.interruption.as_of.isoformat(),
                "source": self.interruption.source,
            }
        if self.unknown:
            document["unknown"] = self.unknown
        return document


def usd_document(amount: Decimal) -> dict[str, str]:
    """An amount of USD for the contract: what was computed is rounded to a millionth, listed digits stay."""
    rounded = amount if -amount.as_tuple().exponent <= 6 else amount.quantize(Decimal("0.000001"))  # type: ignore[operator]
    return Money(amount=rounded, currency="USD").document()


def number(value: Decimal) -> int | float:
    """A size or count as a JSON number: whole where it is whole."""
    return int(value) if value == value.to_integral_value() else float(value)
