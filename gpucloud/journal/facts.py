"""The journal's knowledge of a box, as values: place, offer, price, nodes, boot, measurements of its GPUs.

Nothing here imports pydantic, so that commands that only read start quickly. ``events.py`` builds the
payloads of events from the same values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from gpucloud.journal.lifecycle import EndedBy
from gpucloud.resources import Machine, Ref, ResourceKind, State
from gpucloud_pricing.purchases import Purchase

Data = Mapping[str, Any]
"""Plain JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a box. ``account`` is empty if an older journal does not have it."""

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
class Offer:
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
    disk_gib: int | None = None
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
    """

    usd_per_hour: Decimal
    without: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


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
class Volume:
    """What is known of a volume besides its place and size.

    ``keep_s`` is for how long it is kept after its last use; ``used_at`` is when it was last attached or
    detached, and ``None`` before. ``holder`` is the id of the box that it is attached to, empty for none.
    ``mounted`` tells that it was mounted once: it is never formatted again. ``label`` is the label that its
    file system had as a copy of another volume's, until it was first mounted; empty for what is no copy.
    """

    keep_s: float
    used_at: datetime | None = None
    holder: str = ""
    mounted: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is known of a snapshot besides its place and size.

    ``of`` is the name of the volume or box that it was made of, empty if unknown; ``zone``, ``mounted`` and
    ``label`` are what was known of that volume and of its file system. ``bootable`` tells that it is an image
    of a box, and ``arch`` for which machines, empty if unknown. ``billed`` is what of it is billed.
    """

    of: str = ""
    zone: str | None = None
    mounted: bool = False
    label: str = ""
    bootable: bool = False
    arch: str = ""
    billed: ResourceKind = ResourceKind.SNAPSHOT


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
    """The changes to a box by an event. A field that is ``None`` is not set, and keeps its value.

    ``zone`` is set alone if only the cloud's answer has it; ``listed`` has the list prices of disks and
    addresses. An ``attended`` box ends with the ``run`` that launched it; a ``recovered`` one was found by
    its tags; ``replaced`` is the reason why its first machine was not kept; ``setup_error`` is the reason
    why its set-up failed, though it was kept, and empty once the set-up was repeated with success;
    ``timers`` are the ids of the cloud's own timers that end it. ``billed_until`` has, of each machine whose
    end is known by an upper limit only, when it was last seen to be billed. ``keep_until`` is the deadline of
    the box while it is stopped. ``volume`` is set for volumes only, ``snapshot`` for snapshots.
    ``checkpoints`` is the number under which the box of a run writes its checkpoints, ``saved`` the newest
    of them. ``replaces`` is the id
    of the box in whose place it was launched, because that one's hardware was faulty; ``successors`` are
    those that were launched in its own place, whether or not they became ready. ``traffic`` is what the
    checkpoint that it restores costs on its way, in words. ``host_keys`` are its nodes' public
    host keys, empty where not known, for those with whom it was shared. ``guests`` are addresses of theirs
    that it accepts; ``allow_from`` has them, too. ``ceiling`` is the most that it may cost.
    """

    place: Place | None = None
    zone: str | None = None
    offer: Offer | None = None
    price: Price | None = None
    listed: Mapping[str, Price] | None = None
    nodes: tuple[Node, ...] | None = None
    wanted: Wanted | None = None
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
    volume: Volume | None = None
    snapshot: Snapshot | None = None
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
        """The fields that are set, by name."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}

    def updated(self, news: Facts) -> Facts:
        """These facts with the changes of an event."""
        merged = replace(self, **news.given)
        if merged.zone is not None and merged.place is not None:
            merged = replace(merged, place=replace(merged.place, zone=merged.zone), zone=None)
        return merged

    def without_nodes(self) -> Facts:
        """These facts without the nodes."""
        return replace(self, nodes=None)


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


# --- values to plain JSON and back


def plain(value: Any) -> Any:  # noqa: PLR0911  (one per kind of value)
    """A value of this module as plain JSON: decimals and times as strings, only the facts that are set."""
    match value:
        case Facts():
            return plain(value.given)
        case Enum():
            return str(value)
        case str() | int() | float() | None:
            return value
        case list() | tuple():
            return [plain(each) for each in cast("Sequence[Any]", value)]
        case Decimal():
            return format(value, "f")
        case date():  # a datetime too
            return value.isoformat()
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        case Mapping():  # at last: what is none is compared with each of an SDK's thousand models
            return {str(key): plain(each) for key, each in cast("Data", value).items()}
        case _:
            return value


def facts_text(facts: Facts) -> str:
    """Facts as JSON text for the journal's table, without those that are not set."""
    return json.dumps(plain(facts), sort_keys=True)


def read_facts(data: Data) -> Facts:
    """The reverse of :func:`facts_text`."""
    values = dict(data)
    for name, read in _READERS.items():
        if values.get(name) is not None:
            values[name] = read(values[name])
    return Facts(**values)


def read_price(data: Data) -> Price:
    """A price from plain JSON."""
    day = data.get("as_of")
    return Price(
        amount=Decimal(data["amount"]),
        currency=data["currency"],
        as_of=date.fromisoformat(day) if day else None,
        source=data.get("source"),
    )


def read_node(data: Data) -> Node:
    """A node from plain JSON."""
    values: dict[str, Any] = {**data, "state": State(data["state"])}
    values |= {name: _time(data.get(name)) for name in ("started_at", "ended_at")}
    return Node(**values)


def _read_offer(data: Data) -> Offer:
    gpu: Data | None = data.get("gpu")
    return Offer(
        instance_type=data["instance_type"],
        purchase=Purchase(data["purchase"]),
        interconnect=data.get("interconnect"),
        reservation=data.get("reservation"),
        fabric=data.get("fabric"),
        gpu=None
        if gpu is None
        else Gpu(
            model=gpu["model"],
            count=Decimal(gpu["count"]),
            memory_gib=Decimal(gpu["memory_gib"]) if gpu.get("memory_gib") else None,
        ),
    )


def _read_measured(data: Data) -> Measured:
    slices = tuple(Slice(**each) for each in data.get("slices", ()))
    values: dict[str, Any] = {**data, "slices": slices, "gpu_tests": tuple(data.get("gpu_tests", ()))}
    return Measured(**values)


def _read_guards(data: Sequence[Data | None]) -> tuple[GuardReport | None, ...]:
    return tuple(None if said is None else read_guard(said) for said in data)


def read_guard(said: Data) -> GuardReport:
    """A guard's report from plain JSON."""
    values: dict[str, Any] = {**said, "gpu_percent": tuple(said.get("gpu_percent") or ())}
    return GuardReport(**values)


def read_first_boot(data: Data) -> FirstBoot:
    """A first boot from plain JSON."""
    values: dict[str, Any] = {**data, "steps": tuple(data.get("steps") or ())}
    return FirstBoot(**values)


def _read_listed(data: Mapping[str, Data]) -> dict[str, Price]:
    return {part: read_price(price) for part, price in data.items()}


def _read_place(data: Data) -> Place:
    return Place(**data)


def _read_nodes(data: Sequence[Data]) -> tuple[Node, ...]:
    return tuple(map(read_node, data))


def _read_wanted(data: Data) -> Wanted:
    return Wanted(**data)


def _read_saved(data: Data) -> SavedSet:
    values: dict[str, Any] = {**data, "at": datetime.fromisoformat(data["at"])}
    return SavedSet(**values)


def _read_volume(data: Data) -> Volume:
    values: dict[str, Any] = {**data, "used_at": _time(data.get("used_at"))}
    return Volume(**values)


def _read_snapshot(data: Data) -> Snapshot:
    values: dict[str, Any] = {**data, "billed": ResourceKind(data.get("billed", ResourceKind.SNAPSHOT))}
    return Snapshot(**values)


def _read_ceiling(data: Data) -> Ceiling:
    lists = {name: tuple(data[name]) for name in ("without", "clouds", "gpus")}
    return Ceiling(usd_per_hour=Decimal(data["usd_per_hour"]), **lists)


def _read_times(data: Data) -> dict[str, datetime]:
    return {name: datetime.fromisoformat(text) for name, text in data.items()}


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "place": _read_place,
    "offer": _read_offer,
    "price": read_price,
    "listed": _read_listed,
    "nodes": _read_nodes,
    "wanted": _read_wanted,
    "boot": read_first_boot,
    "allow_from": tuple,
    "ports": tuple,
    "measured": _read_measured,
    "timers": tuple,
    "guards": _read_guards,
    "ended_by": EndedBy,
    "billed_until": _read_times,
    "keep_until": datetime.fromisoformat,
    "volume": _read_volume,
    "snapshot": _read_snapshot,
    "saved": _read_saved,
    "successors": tuple,
    "host_keys": tuple,
    "guests": tuple,
    "ceiling": _read_ceiling,
}


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


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


# --- version 1 of the payloads: one untyped dictionary


def facts_of_version_1(data: Data, place: Data | None = None) -> Facts:
    """Facts from events up to version 3 of the journal; a key that is missing is not set.

    Args:
        data: the dictionary.
        place: further keys of the event about the place.
    """
    old = {**{key: value for key, value in (place or {}).items() if value is not None}, **data}
    has_place = "cloud" in old and "region" in old
    nodes: Sequence[Data] | None = old.get("nodes")
    measured = {key for key in ("gpus_seen", "driver", "boot_seconds", "accept_test", "mig") if key in data}
    listed: Mapping[str, Data] | None = old.get("listed")
    ended_by = old.get("ended_by")
    return Facts(
        place=_place_of_version_1(old) if has_place else None,
        zone=None if has_place else old.get("zone"),
        offer=_offer_of_version_1(old) if old.get("instance_type") else None,
        price=_price_of_version_1(old) if old.get("price") else None,
        listed=None if listed is None else _read_listed(listed),
        nodes=None if nodes is None else tuple(map(_node_of_version_1, nodes)),
        wanted=_wanted_of_version_1(old) if {"spec", "disk_gib", "image"} & old.keys() else None,
        attended=old.get("attended"),
        boot=read_first_boot(old["boot"]) if old.get("boot") else None,
        allow_from=_tuple(old.get("allow_from")),
        ports=_tuple(old.get("ports")),
        measured=_measured_of_version_1(old) if measured else None,
        timers=_tuple(old.get("timers")),
        guards=None if old.get("guards") is None else _read_guards(list(map(_guard, old["guards"]))),
        replaced=old.get("replaced"),
        ended_by=EndedBy(ended_by) if ended_by else None,
        recovered=old.get("recovered"),
    )


def _tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _place_of_version_1(old: Data) -> Place:
    return Place(
        cloud=old["cloud"],
        region=old["region"],
        account=old.get("account") or "",
        zone=old.get("zone") or None,
    )


def _offer_of_version_1(old: Data) -> Offer:
    return _read_offer({"purchase": Purchase.ON_DEMAND, **old})


def _price_of_version_1(old: Data) -> Price:
    day = {"as_of": old.get("price_as_of"), "source": old.get("price_source")}
    return read_price({**old["price"], **day})


def _node_of_version_1(node: Data) -> Node:
    """``billed`` was added later than the rest."""
    billed = node.get("billed", "ended_at" not in node and node["state"] != State.GONE)
    names = ("instance_id", "state", "public_ip", "private_ip", "ended_at")
    known = {name: node[name] for name in names if name in node}
    return read_node({**known, "billed": billed, "taken_back": bool(node.get("taken_back"))})


def _wanted_of_version_1(old: Data) -> Wanted:
    return Wanted(spec=old.get("spec") or {}, disk_gib=old.get("disk_gib"), image=old.get("image"))


def _measured_of_version_1(old: Data) -> Measured:
    return Measured(
        gpus=old.get("gpus_seen") or {},
        driver=old.get("driver"),
        boot_seconds=old.get("boot_seconds") or {},
        gpu_tests=tuple(old.get("accept_test") or ()),
        slices=tuple(Slice(**each) for each in old.get("mig") or ()),
    )


def _guard(said: Data | None) -> Data | None:
    """A guard's report of version 1, without fields that this version does not have."""
    if said is None:
        return None
    known = {each.name for each in fields(GuardReport)}
    return {"health": {}, **{name: value for name, value in said.items() if name in known}}
