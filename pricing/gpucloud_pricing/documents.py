"""The JSON documents of the market: offers, estimates and their figures.

A document is a ``TypedDict``: the functions that write it are checked against it, and its JSON Schema is
generated from it (:mod:`gpucloud.cli.json_schema`). The pair in ``Annotated`` is a keyword of that schema.
Only type checkers and the generator import this: it takes milliseconds, and commands do not need it.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

Amount = Annotated[str, ("pattern", r"^-?[0-9]+(\.[0-9]+)?$")]
"""An amount of money as a decimal string: exact, unlike a JSON number."""
Day = Annotated[str, ("format", "date")]
"""A date: ``2025-01-31``."""
Time = Annotated[str, ("format", "date-time")]
"""A time in RFC 3339, in UTC: ``2025-01-31T12:00:00Z``."""
Number = int | float
"""A JSON number; an integer if it is whole."""
Unknown = dict[str, str]
"""Why a field is ``null`` or a lower bound, by its name."""


class MoneyDocument(TypedDict):
    """An amount of money.

    Attributes:
        amount: a decimal string.
        currency: the ISO 4217 code.
    """

    amount: Amount
    currency: str


class RateDocument(TypedDict):
    """A reference exchange rate.

    Attributes:
        base: the currency of which one unit is priced.
        quote: the currency of the rate.
        rate: how many units of ``quote`` one unit of ``base`` is.
        as_of: the date of the rate.
        source: an id of the market's sources.
    """

    base: str
    quote: str
    rate: float
    as_of: Day
    source: str


class GpuDocument(TypedDict):
    """The GPUs of one node.

    Attributes:
        model: the name of the GPU, without its memory: ``A100``.
        count: how many; less than 1 for a share of a GPU.
        memory_gib: the memory of one whole GPU; ``null`` if unknown.
    """

    model: str
    count: Number
    memory_gib: Number | None


class InterruptionDocument(TypedDict):
    """How often a cloud interrupts spot machines of a type, by its own figures.

    Attributes:
        percent_per_month: the lowest and the highest percentage of machines.
        as_of: the date of the figures.
        source: an id of the market's sources.
    """

    percent_per_month: list[Number]
    as_of: Day
    source: str


class OfferDocument(TypedDict):
    """An instance type in one place, with one way of paying.

    Attributes:
        zone: ``null`` if the price is the region's.
        vcpus: the virtual CPUs of one node.
        memory_gib: the main memory of one node.
        interconnect: how the GPUs of a node are connected.
        rdma: the network between nodes for RDMA.
        purchase: the way of paying: ``on_demand``, ``spot``, ``reserved_1y``, and others.
        price: per hour and node, in the currency of the cloud's bill.
        price_usd: the same in USD.
        price_per_gpu_usd: the same for one GPU.
        as_of: the date of the price.
        source: an id of the market's sources.
        flags: what speaks against the offer: ``stale``, ``implausible``, and others.
        to_buy: whether it is a commitment that must be bought first.
        own_discount_percent: what the user's own conditions take off; only if they do.
        terms: further terms of a commitment: ``all upfront``.
        upfront: what is due at once for a commitment.
        interruption: only for spot.
        unknown: why fields are ``null``.
    """

    cloud: str
    region: str
    zone: str | None
    instance_type: str
    gpu: GpuDocument
    vcpus: int
    memory_gib: Number
    interconnect: str
    rdma: str
    arch: str
    purchase: str
    price: MoneyDocument | None
    price_usd: MoneyDocument | None
    price_per_gpu_usd: MoneyDocument | None
    as_of: Day | None
    source: str | None
    flags: list[str]
    to_buy: bool
    own_discount_percent: NotRequired[Number]
    terms: NotRequired[str | None]
    upfront: NotRequired[MoneyDocument]
    interruption: NotRequired[InterruptionDocument | None]
    unknown: NotRequired[Unknown]


class SubjectDocument(TypedDict):
    """The offer of a price.

    Attributes:
        zone: ``null`` if the price is the region's.
        purchase: the way of paying.
        terms: further terms of a commitment.
        source: an id of the market's sources.
    """

    cloud: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    terms: str | None
    source: str


class ChangeDocument(SubjectDocument):
    """A price that changed; ``null`` before it was offered, or after it ended."""

    before: MoneyDocument | None
    after: MoneyDocument | None


class TariffChangeDocument(TypedDict):
    """A tariff that changed.

    Attributes:
        kind: ``disk``, ``address``, ``egress``, and others.
        to: where data goes; empty for what goes nowhere.
        unit: what the amounts are for.
    """

    cloud: str
    region: str
    kind: str
    to: str
    unit: str
    before: MoneyDocument
    after: MoneyDocument


class ComputationDocument(TypedDict):
    """Work that takes its own time on each machine.

    Attributes:
        flop: the operations, all nodes together.
        mfu: the share of the peak rate that is reached.
        mfu_source: where the share comes from; ``null`` if the user named it.
    """

    flop: Number
    mfu: float
    mfu_source: str | None


class UsageDocument(TypedDict):
    """The usage of boxes.

    Attributes:
        hours: hours of work; ``null`` with a computation, whose options have hours of their own.
        nodes: identical boxes.
        disk_gib: the root disk of each node.
        egress_gib: data sent to the internet, all nodes together.
        snapshot_gib: snapshots of each node.
        boot_s: billed before work begins, and again after every interruption.
        boot_limit_s: the timeout of a boot.
        failed_attempts: machines that were started and discarded before one worked.
        idle_s: billed after the work has ended.
        checkpoint_s: work between two checkpoints; ``null`` if an interruption loses all work.
        save_s: the time to write a checkpoint.
        billed_hours: work, boot and idle time of one node; ``null`` with a computation.
    """

    hours: Number | None
    nodes: int
    disk_gib: int
    egress_gib: Number
    snapshot_gib: int
    boot_s: int
    boot_limit_s: int
    failed_attempts: int
    idle_s: int
    checkpoint_s: int | None
    save_s: int
    billed_hours: Number | None
    computation: ComputationDocument | None


class HoursDocument(TypedDict):
    """The duration of the work on spot.

    Attributes:
        low: one of twenty cases stays below it.
        expected: on average.
        high: one of twenty cases exceeds it; ``null`` if the work practically never ends.
    """

    low: Number
    expected: Number
    high: Number | None


class SpreadDocument(TypedDict):
    """A figure at the low, the middle and the high rate of interruptions."""

    low: Number
    middle: Number
    high: Number


class BandDocument(InterruptionDocument):
    """A cloud's own figures as the evidence of a rate of interruptions."""

    kind: Literal["band"]


class OwnHistoryDocument(TypedDict):
    """The user's own history as the evidence of a rate of interruptions.

    Attributes:
        machine_hours: the hours on spot.
        interruptions: how many machines were interrupted in them.
    """

    kind: Literal["own_history"]
    machine_hours: Number
    interruptions: int
    since: Day
    until: Day


class SpotDocument(TypedDict):
    """What interruptions do to a usage.

    Attributes:
        hours: the duration of the work.
        interruptions: how many are expected.
        chance_percent: the probability of at least one.
        interruptions_per_hour: the rate, of any node.
        evidence: what the rate follows from.
        lost_hours: the work that is repeated, on average.
        best_checkpoint_interval_s: ``null`` if checkpoints do not pay off.
        dearer_than_on_demand: ``null`` if the price on demand is unknown.
    """

    hours: HoursDocument
    interruptions: Number
    chance_percent: SpreadDocument
    interruptions_per_hour: SpreadDocument
    evidence: BandDocument | OwnHistoryDocument
    lost_hours: Number
    best_checkpoint_interval_s: int | None
    dearer_than_on_demand: bool | None


class EstimateDocument(TypedDict):
    """The cost of a usage on an offer, in USD; ``null`` if unknown.

    Attributes:
        purchase: the way of paying.
        total: the sum of the known parts.
        expected_total: with the work that interruptions repeat.
        low_total: one of twenty cases stays below it.
        high_total: one of twenty cases exceeds it.
        complete: whether every part is known.
        hours: hours of work on this machine; ``null`` if unknown.
        break_even_hours: hours per month from which a commitment costs less than on demand; ``null`` if
            never.
        upfront: what is due at once for a commitment.
        spot: only for spot.
        interruption_percent: the probability of an interruption, for spot.
        unknown: why amounts are ``null`` or lower bounds.
    """

    offer: OfferDocument
    purchase: str
    compute: MoneyDocument | None
    disk: MoneyDocument | None
    address: MoneyDocument | None
    egress: MoneyDocument | None
    snapshots: MoneyDocument | None
    total: MoneyDocument | None
    expected_total: MoneyDocument | None
    low_total: MoneyDocument | None
    high_total: MoneyDocument | None
    complete: bool
    hours: Number | None
    break_even_hours: Number | None
    upfront: NotRequired[MoneyDocument]
    spot: NotRequired[SpotDocument]
    interruption_percent: NotRequired[Number]
    unknown: NotRequired[Unknown]


class RowDocument(TypedDict):
    """A row of the data behind a figure.

    Attributes:
        what: the subject of the amount.
        amount: a decimal string.
        currency: the ISO 4217 code, or the unit of an amount that is no money: ``%``, ``h``, ``machines``.
        as_of: ``null`` if the source has no date.
        source: an id of the market's sources.
    """

    what: str
    amount: Amount
    currency: str
    as_of: Day | None
    source: str


class FigureDocument(TypedDict):
    """How a figure of an estimate is computed.

    Attributes:
        part: the name of the figure.
        amount: money, or a number of hours or percent; ``null`` if unknown.
        formula: for people.
        rows: the data in it.
    """

    part: str
    amount: MoneyDocument | float | None
    formula: str
    rows: list[RowDocument]
