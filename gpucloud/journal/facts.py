"""The journal's knowledge of a box, as values: place, offer, price, nodes, boot, measurements of its GPUs.

The payloads of events (``events.py``) and the states that they fold to are built from these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from gpucloud.journal.lifecycle import EndedBy
from gpucloud.journal.plain import Data
from gpucloud.resources import Machine, Ref, ResourceKind, State
from gpucloud_pricing.purchases import Purchase


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a box. ``account`` is empty for one that was found by its tags alone."""

    cloud: str
    region: str
    account: str = ""
    zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The GPUs of one node."""

    model: str
    count: Decimal
    memory_gib: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoughtOffer:
    """The offer that was bought.

    ``gpu`` is ``None`` if the market does not have the type; ``reservation`` is the id of the capacity that
    the account held, if the box was launched into such. ``fabric`` is the RDMA network that joins its nodes.
    """

    instance_type: str
    purchase: Purchase
    gpu: Gpu | None = None
    interconnect: str | None = None
    reservation: str | None = None
    fabric: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price, with its source and its date."""

    amount: Decimal
    currency: str
    as_of: date | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        """A price below zero would take from what others cost, in every sum and budget."""
        if self.amount < 0:
            raise ValueError(f"a price of {self.amount}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of a box as its cloud last returned it.

    ``started_at`` is the cloud's own time; ``ended_at`` is set while its compute is not billed: since when.
    ``taken_back`` means that the cloud interrupted it (spot).
    """

    instance_id: str
    state: State
    public_ip: str | None = None
    private_ip: str | None = None
    billed: bool = True
    started_at: datetime | None = None
    ended_at: datetime | None = None
    taken_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wish of the user. ``spec`` is the spec as plain JSON, without the values of ``env``."""

    spec: Data
    image: str | None = None

    @property
    def tags(self) -> dict[str, str]:
        """The user's own tags; empty for a box that was recovered by its tags."""
        tags: Data = self.spec.get("tags") or {}
        return {name: str(value) for name, value in tags.items()}

    @property
    def has_idle_limit(self) -> bool:
        """Whether the box ends by itself when it is idle."""
        return self.spec.get("idle") not in {None, "none"}

    @property
    def names_callers(self) -> bool:
        """Whether the user specified the addresses that may connect."""
        return bool(self.spec.get("allow_from"))

    @property
    def tests_gpus(self) -> bool:
        """Whether the GPUs are tested before the box counts as ready."""
        return bool(self.spec.get("accept_test"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The most that a box may cost, as agreed when it was planned: its dearest attempt, all nodes.

    Attributes:
        usd_per_hour: compute, disks and addresses, but for those in ``without``.
        without: the parts for which no price is known, for people.
        clouds: where it may be bought.
        gpus: the models that it may have.
        machine_usd: the most that the machine of a box that was started again may cost per hour; ``None`` for
            a launch, whose attempts have their own.
    """

    usd_per_hour: Decimal
    without: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    machine_usd: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBoot:
    """The first boot: the image's own name, the steps, the least driver, and the MIG profile (``mig``)."""

    image: str | None = None
    steps: tuple[str, ...] = ()
    least_driver: str | None = None
    mig: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A MIG slice of a GPU of a node."""

    node: int
    gpu: int
    profile: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements of a box when it became ready.

    ``gpus`` counts GPUs by their driver's name for them, ``boot_seconds`` has the steps of the first boot,
    ``gpu_tests`` one report of the GPU test per node, as in the documents.
    """

    gpus: Mapping[str, int]
    driver: str | None = None
    boot_seconds: Mapping[str, float]
    gpu_tests: tuple[Data, ...] = ()
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """The last report of a node's guard.

    ``at``, ``deadline`` and ``taken_back_at`` are seconds since 1970; ``left_s``, ``clock_ahead_s`` and
    ``idle_s`` are durations; ``gpu_percent`` has one number per GPU; ``health`` has the faults, in words.
    """

    at: float
    idle_s: float
    left_s: float | None = None
    deadline: float | None = None
    clock_ahead_s: float | None = None
    sessions: float | None = None
    taken_back_at: float | None = None
    clock_is_right: bool = False
    jobs: bool = False
    gpu_percent: tuple[float, ...] = ()
    ending: str | None = None
    health: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFacts:
    """The changes to what volumes alone have, as in :class:`Facts`."""

    keep_s: float | None = None
    used_at: datetime | None = None
    holder: str | None = None
    mounted: bool | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """What snapshots alone have, as in :class:`Facts`."""

    of: str | None = None
    of_zone: str | None = None
    mounted: bool | None = None
    label: str | None = None
    bootable: bool | None = None
    arch: str | None = None
    billed: ResourceKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRef:
    """A resource of a box: its id, and its name while it has no id."""

    ref: Ref
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """An interval in which one part of one node was billed at one price.

    Attributes:
        box: the box.
        resource: the id of the machine.
        part: ``compute``, ``disk``, ``address`` or ``snapshot``.
        start: the cloud's own start, if it reports one.
        end: the cloud's own end if it reports one, otherwise when the end was observed; ``None`` while it is
            billed.
        price: per hour (a disk, a snapshot: per GiB and month); ``None`` if unknown.
        gib: the size of a disk, or of the disk that a snapshot was made of.
        paid_before: whether it was paid for before the launch: capacity that the account held.
        cloud: the cloud of the machine, which for a failed attempt may differ from that of the box.
        region: the region of the machine.
    """

    box: str
    resource: str
    part: str
    start: datetime
    end: datetime | None
    price: Price | None
    gib: int | None = None
    paid_before: bool = False
    cloud: str | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSet:
    """The newest whole checkpoint of a box, as it was seen last.

    Attributes:
        number: its number in its attempt.
        at: when its files were looked at, by the box.
        newest: the path of its newest file in the folder.
        files: how many it has.
        size_bytes: their size.
        bytes_per_s: how fast the box uploads, as measured; ``None`` before.
        notices: how many seconds before they take a spot box back the clouds tell it, by cloud.
    """

    number: int
    at: datetime
    newest: str
    files: int
    size_bytes: int
    bytes_per_s: float | None
    notices: Mapping[str, int]

    @property
    def upload_s(self) -> float | None:
        """The seconds that an upload of all of it takes; ``None`` if that is not known."""
        return self.size_bytes / self.bytes_per_s if self.bytes_per_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The changes to a box, a volume or a snapshot by an event. What is ``None`` keeps its value.

    ``zone`` is set alone if only the cloud's answer has it; ``disk_gib`` is the size of the disk of each
    node, of the volume, or of what the snapshot was made of; ``listed`` has the list prices of disks and
    addresses. An ``attended`` box ends with the ``run`` that launched it; a ``recovered`` one was found by
    its tags; ``replaced`` is the reason why its first machine was not kept; ``setup_error`` is the reason why
    its set-up failed, though it was kept, and empty once the set-up was repeated with success; ``timers`` are
    the ids of the cloud's own timers that end it. ``billed_until`` has, of each machine whose end is known by
    an upper limit only, when it was last seen to be billed. ``keep_until`` is the deadline of the box while
    it is stopped. ``volume`` and ``snapshot`` have what these alone have. ``checkpoints`` is the number under
    which the box of a run writes its checkpoints, ``saved`` the newest of them. ``replaces`` is the id of the
    box in whose place it was launched, because that one's hardware was faulty; ``successors`` are those that
    were launched in its own place, whether or not they became ready. ``traffic`` is what the checkpoint that
    it restores costs on its way, in words. ``host_keys`` are its nodes' public host keys, empty where not
    known, for those with whom it was shared. ``guests`` are addresses of theirs that it accepts;
    ``allow_from`` has them, too. ``ceiling`` is the most that it may cost.
    """

    place: Place | None = None
    zone: str | None = None
    offer: BoughtOffer | None = None
    price: Price | None = None
    listed: Mapping[str, Price] | None = None
    nodes: tuple[Node, ...] | None = None
    wanted: Wanted | None = None
    disk_gib: int | None = None
    attended: bool | None = None
    boot: FirstBoot | None = None
    allow_from: tuple[str, ...] | None = None
    ports: tuple[int, ...] | None = None
    measured: Measured | None = None
    timers: tuple[str, ...] | None = None
    guards: tuple[GuardReport | None, ...] | None = None
    replaced: str | None = None
    setup_error: str | None = None
    ended_by: EndedBy | None = None
    recovered: bool | None = None
    billed_until: Mapping[str, datetime] | None = None
    keep_until: datetime | None = None
    volume: VolumeFacts | None = None
    snapshot: SnapshotFacts | None = None
    checkpoints: int | None = None
    saved: SavedSet | None = None
    replaces: str | None = None
    successors: tuple[str, ...] | None = None
    traffic: str | None = None
    host_keys: tuple[str, ...] | None = None
    guests: tuple[str, ...] | None = None
    ceiling: Ceiling | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are set, by name; those of a volume or a snapshot as the others."""
        given = _given(self)
        for own in (given.pop("volume", None), given.pop("snapshot", None)):
            given |= _given(own) if own is not None else {}
        return given


def _given(facts: Facts | VolumeFacts | SnapshotFacts) -> dict[str, Any]:
    return {each.name: value for each in fields(facts) if (value := getattr(facts, each.name)) is not None}


NO_FACTS = Facts()


def node_of(machine: Machine) -> Node:
    """A node from a machine as its cloud returned it."""
    return Node(
        instance_id=machine.ref.id,
        state=machine.state,
        public_ip=machine.public_ip,
        private_ip=machine.private_ip,
        billed=machine.billed,
        started_at=machine.created_at,
        ended_at=machine.ended_at,
    )


def read_guard(said: Data) -> GuardReport:
    """A guard's report, as its node tells it."""
    values: dict[str, Any] = {**said, "gpu_percent": tuple(said.get("gpu_percent") or ())}
    return GuardReport(**values)


# --- money


def hours_of(usage: Usage, until: datetime, since: datetime | None = None) -> Decimal:
    """The hours of an interval between two moments; never negative, even if clocks differ."""
    start = usage.start if since is None else max(since, usage.start)
    end = until if usage.end is None else min(usage.end, until)
    return hours_between(start, end)


_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000


def hours_between(start: datetime, end: datetime) -> Decimal:
    """The hours between two moments; zero if the end is before the start."""
    return Decimal((end - start) // _MICROSECOND) / _MICROSECONDS_PER_HOUR if end > start else Decimal(0)
