"""What the journal returns and takes, as values: boxes, volumes, snapshots, create intents, events …"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import ClassVar, TypeVar

from gpucloud.journal.budgets import Budget
from gpucloud.journal.events import JournalEvent
from gpucloud.journal.facts import (
    BoughtOffer,
    Ceiling,
    Facts,
    FirstBoot,
    GuardReport,
    Measured,
    Node,
    Place,
    Price,
    SavedSet,
    Usage,
    Wanted,
)
from gpucloud.journal.kinds import Kind
from gpucloud.journal.lifecycle import HALTING, LAUNCHING, BoxState, EndedBy, Lease
from gpucloud.journal.policy import Policy
from gpucloud.journal.runs import AttemptRecord, Exited, Failure, RunState, Work
from gpucloud.resources import Ref, ResourceKind, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One create call that was meant to be made. ``zone`` is empty where the cloud chooses."""

    id: str
    box: str
    op: str
    cloud: str
    account: str
    region: str
    zone: str
    token: str
    name: str
    status: str
    at: datetime
    price: Decimal | None = None
    currency: str | None = None
    ceiling_usd: Decimal | None = None
    request_hash: str | None = None

    @property
    def is_unresolved(self) -> bool:
        """Whether its outcome is not known."""
        return self.status in {"open", "watched"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """One resource that a box is accountable for. ``at`` is when its state last changed."""

    box: str
    ref: Ref
    name: str
    state: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What is bought under a name and billed until it is deleted, as its events tell of it.

    What all have that are a :class:`Box`, a :class:`Volume` or a :class:`Snapshot`; see ``docs/journal.md``.
    ``number`` is that of its last event; ``epoch`` counts who has held it. ``taken_over_at`` is when it was
    last taken from a holder that was not proven dead. ``listed`` are list prices of disks, addresses and
    snapshots, by their tariff. ``disk_gib`` is the size of the disk: of each node, of a volume, of what a
    snapshot was made of. ``intents`` and ``resources`` are in the order in which they were made.
    """

    kind: ClassVar[Kind]

    id: str
    name: str
    owner: str
    op: str
    state: BoxState
    epoch: int = 0
    number: int = 0
    lease: Lease | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    expires_at: datetime | None = None
    seen_at: datetime | None = None
    taken_over_at: datetime | None = None
    place: Place | None = None
    disk_gib: int | None = None
    listed: Mapping[str, Price] = field(default_factory=dict[str, Price])
    ceiling: Ceiling | None = None
    intents: tuple[Intent, ...] = ()
    resources: tuple[ResourceRow, ...] = ()
    usage: tuple[Usage, ...] = ()
    attended: bool = False
    recovered: bool = False

    @property
    def unresolved(self) -> list[Intent]:
        """Its create intents without a known outcome, oldest first."""
        return [each for each in self.intents if each.is_unresolved]

    @property
    def present(self) -> list[ResourceRow]:
        """Its resources that are or may be there, in the order in which they were made."""
        return [each for each in self.resources if each.state != "gone"]

    @property
    def cloud(self) -> str:
        """Its cloud; empty before an offer was chosen."""
        return self.place.cloud if self.place else ""

    @property
    def currency(self) -> str:
        """Of what is billed of it."""
        known = next(iter(self.listed.values()), None)
        return known.currency if known else "USD"

    @property
    def removal(self) -> str:
        """The command that deletes it."""
        return f"gpucloud {self.kind} delete {self.name} --yes"

    @property
    def is_remains(self) -> bool:
        """Whether it is what a command left that was not finished, if nobody is working on it."""
        left = self.state is BoxState.READY and self.attended  # its run is no more
        return left or self.state in LAUNCHING | {BoxState.DELETING, BoxState.INTERRUPTED}

    @property
    def is_in_use(self) -> bool:
        """Whether a box holds it, as far as the journal was told: it is not past its end."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Box(Holding):
    """One box: machines on which somebody works.

    ``price`` is per hour and node. What is described by a class of its own is in ``gpucloud.journal.facts``.
    """

    kind = Kind.BOX

    run_id: str | None = None
    offer: BoughtOffer | None = None
    price: Price | None = None
    nodes: tuple[Node, ...] = ()
    wanted: Wanted = Wanted(spec={})  # noqa: RUF009  (frozen)
    boot: FirstBoot = FirstBoot()  # noqa: RUF009
    allow_from: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    measured: Measured | None = None
    timers: tuple[str, ...] = ()
    guards: tuple[GuardReport | None, ...] = ()
    replaced: str | None = None
    setup_error: str | None = None
    ended_by: EndedBy | None = None
    billed_until: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    keep_until: datetime | None = None
    checkpoints: int | None = None
    saved: SavedSet | None = None
    replaces: str | None = None
    successors: tuple[str, ...] = ()
    traffic: str | None = None
    host_keys: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()

    @property
    def price_per_hour(self) -> Decimal | None:
        """Per hour and node, in :attr:`currency`; ``None`` before an offer was chosen."""
        return self.price.amount if self.price else None

    @property
    def currency(self) -> str:
        """Of its price, or of what else is billed of it."""
        return self.price.currency if self.price else super(Box, self).currency

    @property
    def removal(self) -> str:
        """The command that deletes it."""
        return f"gpucloud down {self.name} --yes"

    @property
    def is_spot(self) -> bool:
        """Whether its cloud may take its machines back."""
        return self.offer is not None and self.offer.purchase.kind.interruptible

    @property
    def compute_ended_at(self) -> datetime | None:
        """When its machines ceased to be billed; ``None`` while one is."""
        ends = [node.ended_at for node in self.nodes if node.ended_at]
        seen = max(ends) if self.nodes and len(ends) == len(self.nodes) else None
        return min(filter(None, (seen, self.ended_at)), default=None)

    @property
    def gone_nodes(self) -> int:
        """How many of its nodes are gone, as far as somebody has looked."""
        return sum(node.state is State.GONE for node in self.nodes)

    def machine(self, node: int) -> Ref:
        """The machine that is a node."""
        assert self.place is not None  # noqa: S101  (what has nodes has a place)
        return Ref(
            cloud=self.place.cloud,
            account=self.place.account,
            region=self.place.region,
            kind=ResourceKind.INSTANCE,
            id=self.nodes[node].instance_id,
        )

    @property
    def is_halting(self) -> bool:
        """Whether it is what a ``stop`` or ``start`` left, if nobody is working on it: it is then stopped."""
        return self.state in HALTING

    @property
    def shown_state(self) -> BoxState:
        """Its state as users see it.

        A box that was kept after its set-up failed lives like one that is ready, until its end, and is
        journalled as such: what ends, finds or bills boxes need not know of it. It is shown as failed.
        """
        failed = self.state is BoxState.READY and bool(self.setup_error)
        return BoxState.FAILED if failed else self.state

    @property
    def known(self) -> Facts:
        """What its events have told."""
        known = {name: getattr(self, name) for name in Facts.__dataclass_fields__ if hasattr(self, name)}
        return Facts(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(Holding):
    """One volume: a disk that outlives boxes.

    ``keep_s`` is for how long it is kept after its last use; ``used_at`` is when it was last attached or
    detached, and ``None`` before. ``holder`` is the id of the box that it is attached to, empty for none.
    ``mounted`` tells that it was mounted once: it is never formatted again. ``label`` is the label that its
    file system had as a copy of another volume's, until it was first mounted; empty for what is no copy.
    """

    kind = Kind.VOLUME

    keep_s: float
    used_at: datetime | None = None
    holder: str = ""
    mounted: bool = False
    label: str = ""

    @property
    def keep(self) -> timedelta:
        """For how long it is kept after its last use."""
        return timedelta(seconds=self.keep_s)

    @property
    def is_in_use(self) -> bool:
        """Whether a box holds it, as far as the journal was told: it is not past its end."""
        return bool(self.holder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Holding):
    """One snapshot: a copy of a volume or of the root disk of a box.

    ``of`` is the name of the volume or box that it was made of, empty if unknown; ``of_zone``, ``mounted``
    and ``label`` are what was known of that volume and of its file system. ``bootable`` tells that it is an
    image of a box, and ``arch`` for which machines, empty if unknown. ``billed`` is what of it is billed.
    """

    kind = Kind.SNAPSHOT

    of: str = ""
    of_zone: str | None = None
    mounted: bool = False
    label: str = ""
    bootable: bool = False
    arch: str = ""
    billed: ResourceKind = ResourceKind.SNAPSHOT


TYPES: Mapping[Kind, type[Holding]] = {each.kind: each for each in (Box, Volume, Snapshot)}
"""The types of what is bought, by their kind."""
H = TypeVar("H", bound=Holding)


def a_plan(
    *, name: str, owner: str, run_id: str | None, expires_at: datetime | None, facts: Facts, at: datetime
) -> Box:
    """A box as it would be planned, which is not in the journal."""
    return Box(
        id="",
        name=name,
        owner=owner,
        run_id=run_id,
        op="",
        state=BoxState.PLANNED,
        created_at=at,
        expires_at=expires_at,
        **facts.given,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as the journal has it; ``number``, ``epoch`` and ``lease`` are as those of a :class:`Box`.

    ``id`` is unique for ever; ``run_id``, the id that its user knows and its boxes have as a tag, is unique
    among the owner's runs that are not over.

    A ``detached`` run goes on when its process ends: whoever tends it relaunches it. An ``unattended`` one
    needs no process: it is detached, or its command has ended with files to copy. ``restart_at`` is when the
    next attempt is due, while it waits for one. ``not_fetched`` is why files of the command could not be
    copied, while their box is kept.
    """

    id: str
    run_id: str
    owner: str
    state: RunState
    epoch: int = 0
    number: int = 0
    lease: Lease | None = None
    created_at: datetime
    ended_at: datetime | None = None
    expires_at: datetime | None = None
    work: Work
    attempts: tuple[AttemptRecord, ...] = ()
    detached: bool = False
    unattended: bool = False
    restart_at: datetime | None = None
    exit_code: int | None = None
    failure: Failure | None = None
    not_fetched: str | None = None

    @property
    def name(self) -> str:
        """As its user knows it."""
        return self.run_id

    @property
    def box(self) -> str | None:
        """The id of the box of its last attempt; ``None`` if that has none."""
        return self.attempts[-1].box if self.attempts else None

    @property
    def exited(self) -> Exited | None:
        """How its command has ended; ``None`` while it has not, or where it has no exit code."""
        return None if self.exit_code is None else Exited(self.exit_code, self.failure)

    @property
    def keeps_box(self) -> bool:
        """Whether its command has failed, and its box is to stay until its deadline."""
        return self.work.keep_on_failure and bool(self.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRun:
    """An interval in which one machine ran on spot, as far as somebody looked.

    ``taken_back`` means that its cloud interrupted the machine, in this interval or in a later one.
    """

    machine: str
    cloud: str
    region: str
    instance_type: str
    start: datetime
    end: datetime
    taken_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event that is to be appended.

    Attributes:
        id: made by its writer: an event with this id is appended once, however often that is tried.
        epoch: under which its writer holds the box; 0 for the first event of a box.
        event: what it says.
    """

    id: str
    epoch: int
    event: JournalEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as it stands in the journal; ``number`` counts those of its box or run, which is ``box``."""

    id: str
    at: datetime
    box: str
    number: int
    event: JournalEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What admins have set for all who share the journal: budgets, by name, and the policy."""

    budgets: tuple[Budget, ...] = ()
    policy: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedKey:
    """The public ssh key of a login, and the login that said so: itself, or an admin."""

    key: str
    by: str


class Appended(StrEnum):
    """What became of an event that was to be appended."""

    WRITTEN = "written"
    WAS_WRITTEN = "was_written"  # an event with its id is there already
    STALE = "stale"  # the box has another epoch, or has more events than its writer knew
