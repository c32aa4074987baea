"""The documents of ``sandbox``."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from gpucloud_pricing.documents import Amount, MoneyDocument, Number, Time


class BillingDocument(TypedDict):
    """A resource that the emulated clouds bill; ``price`` is per hour."""

    kind: str
    id: str
    cloud: str
    region: str
    box: str | None
    owner: str | None
    price: MoneyDocument


class SandboxStatusDocument(TypedDict):
    """``sandbox start`` and ``sandbox status``.

    Attributes:
        endpoints: by cloud; ``null`` for a cloud that does not run.
        clock_ahead_s: how far the clouds' clock is ahead.
        review: whose unsafe requests are refused.
        environment: the variables for the vendors' tools; this and the following of ``sandbox start``.
        unset: the variables that must not be set.
    """

    running: bool
    endpoints: dict[str, str | None]
    billed_per_hour: MoneyDocument
    billing: list[BillingDocument]
    clock_ahead_s: Number | None
    review: str | None
    environment: NotRequired[dict[str, str]]
    unset: NotRequired[list[str]]


class SandboxStopDocument(TypedDict):
    """``sandbox stop``."""

    running: bool


class SandboxResetDocument(TypedDict):
    """``sandbox reset``: nothing besides."""


class PaceDocument(TypedDict):
    """The delays of the emulated clouds.

    Attributes:
        transition_s: how long an instance takes to start, and to stop.
        latency_s: added to every call.
        lag_s: how long a new instance is hidden from reads.
        lag_calls: from how many reads it is hidden.
    """

    transition_s: Number
    latency_s: Number
    lag_s: Number
    lag_calls: int


class SandboxPaceDocument(TypedDict):
    """``sandbox pace``."""

    pace: PaceDocument


class CallDocument(TypedDict):
    """A call that the emulated clouds received.

    Attributes:
        mutating: whether it changes something.
        status: the HTTP status of the answer; ``null`` without one.
        milliseconds: how long the answer took.
        concurrent: how many calls were under way, this one included.
    """

    cloud: str
    service: str
    action: str
    region: str
    mutating: bool
    at: Time
    status: int | None
    milliseconds: Number | None
    concurrent: int


class SandboxCallsDocument(TypedDict):
    """``sandbox calls``, oldest first."""

    calls: list[CallDocument]


class StockDocument(TypedDict):
    """A rule about stock; the places are globs."""

    count: int
    cloud: str
    region: str
    zone: str
    instance_type: str
    purchase: str


class SandboxStockDocument(TypedDict):
    """``sandbox stock``."""

    rules: list[StockDocument]


class PriceMoveDocument(TypedDict):
    """A change of prices; the places are globs.

    Attributes:
        amount: the new price: a decimal string.
        factor: the catalog's price times this: a decimal string.
        tariff: the kind of tariff, as a glob; empty for prices of machines.
        at: when it was made.
    """

    cloud: str
    region: str
    zone: str
    instance_type: str
    purchase: str
    amount: Amount | None
    factor: Amount | None
    tariff: str
    at: str


class SandboxPriceDocument(TypedDict):
    """``sandbox price``."""

    moves: list[PriceMoveDocument]


class FaultDocument(TypedDict):
    """A fault that is still active; ``cloud``, ``action`` and ``region`` are globs.

    Attributes:
        struck: how many calls it has struck.
        times: how many calls it strikes; ``null`` for all.
        skip: how many matching calls succeed first.
        status: the HTTP status of an error.
        seconds: the length of a delay.
    """

    number: int
    struck: int
    effect: str
    stage: str
    cloud: str
    action: str
    region: str
    times: int | None
    skip: int
    code: str
    status: int
    message: str
    seconds: Number
    signal: str


class SandboxFaultDocument(TypedDict):
    """``sandbox fault``."""

    faults: list[FaultDocument]


class TakenDocument(TypedDict):
    """An instance that is interrupted; ``at`` is its end."""

    instance: str
    at: Time


class SandboxInterruptDocument(TypedDict):
    """``sandbox interrupt``."""

    taken: list[TakenDocument]


class SandboxGpuDocument(TypedDict):
    """``sandbox gpu``: the next ``times`` boxes get a faulty GPU."""

    sickness: str
    times: int


class SandboxClockDocument(TypedDict):
    """``sandbox clock``: the clouds' time."""

    now: Time


class SandboxAddressDocument(TypedDict):
    """``sandbox address``: the caller's address as the clouds see it."""

    address: str


class SandboxControlDocument(TypedDict):
    """``sandbox control``: what the cloud answered."""

    answer: Any


SandboxDocument = (
    SandboxStatusDocument
    | SandboxStopDocument
    | SandboxResetDocument
    | SandboxPaceDocument
    | SandboxCallsDocument
    | SandboxStockDocument
    | SandboxPriceDocument
    | SandboxFaultDocument
    | SandboxInterruptDocument
    | SandboxGpuDocument
    | SandboxClockDocument
    | SandboxAddressDocument
    | SandboxControlDocument
)
