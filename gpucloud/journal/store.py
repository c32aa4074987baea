"""The journal: an append-only record of what was meant and what happened, and the tables read from it.

Every change is one event, written in the same transaction as its effect on the tables ``boxes``, ``nodes``,
``intents``, ``resources`` and ``usage``; replaying the events gives the same tables. SQLite with a
write-ahead log and ``synchronous=FULL``: when a call here returns, the event survives a crash of the machine.

All writing is :meth:`Journal.append`: an event with an id of its writer, the next number of its box, and the
epoch under which the writer holds the box. All reading of events is :meth:`Journal.since`.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.events import VERSION, Event, Planned, Recovered, Released, Seen, Taken, read
from gpucloud.journal.facts import (
    NOTHING_TOLD,
    Facts,
    FirstBoot,
    GuardReport,
    Measured,
    NamedRef,
    Node,
    Offer,
    Place,
    Price,
    Usage,
    Wanted,
    cost_of,
    plain,
    read_facts,
)
from gpucloud.journal.lifecycle import LAUNCHING, OVER, BoxState, Claim, EndedBy, Lease, may_become
from gpucloud.journal.projections import project
from gpucloud.journal.schema import LIVING, PRESENT, PROJECTIONS, STEPS, UNRESOLVED, replay
from gpucloud.resources import Ref, ResourceKind, State, Tags
from gpucloud_pricing.demand import Purchase
from gpucloud_pricing.sqlite_file import (
    BUSY_S,
    NewerFileError,
    connect,
    migrate,
    transaction,
    use_wal,
)

_IDS_AT_ONCE = 500
_DAMAGED = "it is damaged: restore a copy, or move it aside; boxes still running carry your tags"
_TO_BE_SHOWN = Decimal("0.0001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One box as the journal has it: what is told of it by its events; see ``docs/journal.md``.

    ``number`` is that of its last event; ``epoch`` counts who has held it. ``taken_over_at`` is when it was
    last taken from a holder that was not proven dead. ``price`` is per hour and node. What is described by a
    class of its own is in ``gpucloud.journal.facts``.
    """

    id: str
    name: str
    owner: str
    run_id: str | None
    op: str
    state: BoxState
    epoch: int
    number: int = 0
    lease: Lease | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    seen_at: datetime | None
    taken_over_at: datetime | None
    place: Place | None = None
    offer: Offer | None = None
    price: Price | None = None
    listed: Mapping[str, Price] = field(default_factory=dict[str, Price])
    nodes: tuple[Node, ...] = ()
    usage: tuple[Usage, ...] = ()
    wanted: Wanted = Wanted(spec={})  # noqa: RUF009  (frozen)
    attended: bool = False
    boot: FirstBoot = FirstBoot()  # noqa: RUF009
    allow_from: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    measured: Measured | None = None
    timers: tuple[str, ...] = ()
    guards: tuple[GuardReport | None, ...] = ()
    replaced: str | None = None
    ended_by: EndedBy | None = None
    recovered: bool = False

    @property
    def cloud(self) -> str:
        """Its cloud; empty before an offer was chosen."""
        return self.place.cloud if self.place else ""

    @property
    def price_per_hour(self) -> Decimal | None:
        """Per hour and node, in :attr:`currency`; ``None`` before an offer was chosen."""
        return self.price.amount if self.price else None

    @property
    def currency(self) -> str:
        """Of its price."""
        return self.price.currency if self.price else "USD"

    @property
    def is_spot(self) -> bool:
        """Whether its cloud may take its machines back."""
        return self.offer is not None and self.offer.purchase is Purchase.SPOT

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

    def compute_cost(self, until: datetime) -> Decimal | None:
        """What its compute has cost; ``None`` while nothing has started, or without a price."""
        costs = [cost_of(each, until) for each in self.usage if each.part == "compute"]
        known = [cost for cost in costs if cost is not None]
        return sum(known, Decimal(0)).quantize(_TO_BE_SHOWN) if known else None

    @property
    def is_remains(self) -> bool:
        """Whether it is what a command left that was not finished, if nobody is working on it."""
        left = self.state is BoxState.READY and self.attended  # its run is no more
        return left or self.state in LAUNCHING | {BoxState.DELETING, BoxState.INTERRUPTED}

    @property
    def known(self) -> Facts:
        """What its events have told."""
        shared = {name: getattr(self, name) for name in Facts.__dataclass_fields__ if name != "zone"}
        return Facts(**shared)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """One resource that a box is accountable for. ``at`` is when its state last changed."""

    box: str
    ref: Ref
    name: str
    state: str
    at: datetime


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
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as it stands in the journal; ``number`` counts those of its box."""

    id: str
    at: datetime
    box: str
    number: int
    event: Event


class Appended(StrEnum):
    """What became of an event that was to be appended."""

    WRITTEN = "written"
    WAS_WRITTEN = "was_written"  # an event with its id is there already
    STALE = "stale"  # the box has another epoch, or has more events than its writer knew


class JournalError(UsageError):
    """The journal cannot be read or written: a full disk, a damaged file, a writer that does not end."""


class NameTakenError(UsageError):
    """A living box of this owner has the name already."""


class RunTakenError(UsageError):
    """A living box of this owner belongs to the run already."""


class StaleWriterError(GpucloudError):
    """Another process has taken this box over; nothing of this process may be written of it any more."""

    error_class = "taken_over"


class Journal:
    """Reads and writes one journal file. Safe to use from several threads and processes.

    Who works on a box holds its lease: :meth:`plan_box` and :meth:`take` give it, :meth:`write` needs it,
    :meth:`renew` renews all that this process holds, :meth:`release` gives it back.
    """

    def __init__(
        self,
        file: _File,
        clock: Callable[[], datetime],
        lease_clock: Callable[[], datetime],
        busy_s: float,
    ) -> None:
        self._file = file
        self._clock = clock
        self._busy_s = busy_s
        self.now = lease_clock
        """Gives the time by which leases age."""
        self._held: dict[str, tuple[int, Lease]] = {}
        self._lock = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        weakref.finalize(self, _close_all, self._idle)

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Callable[[], datetime],
        *,
        busy_s: float = BUSY_S,
        lease_clock: Callable[[], datetime] | None = None,
    ) -> Journal:
        """Opens the journal, making or migrating it as needed.

        Args:
            path: the file; its folder exists.
            clock: gives the time in UTC, by which events are dated.
            busy_s: how long to wait for another writer.
            lease_clock: gives the time by which leases age; without it, that of the file system on which the
                file is: hosts that share the file share this clock, however wrong their own are.

        Raises:
            JournalError: the file is damaged, read-only, or locked for too long.
            UsageError: it is newer than this program.
        """
        file = _File(path)
        journal = cls(file, clock, lease_clock or partial(file.time, clock), busy_s)
        with _explained(path):
            file.hold()
            with journal._connection() as connection:
                use_wal(connection, busy_s)
                try:
                    migrate(connection, STEPS)
                except NewerFileError as error:
                    raise UsageError(
                        f"the journal {path} was written by a newer gpucloud (schema {error.version}, this"
                        f" one knows {error.known})",
                        hint="use that newer version; nothing was read or changed",
                    ) from error
                except ValueError as error:  # of an event; the migration was taken back
                    raise JournalError(
                        f"the journal {path} cannot be read: {error}", hint=_DAMAGED
                    ) from error
        return journal

    # --- events

    def append(self, box: str, number: int, event: NewEvent) -> Appended:
        """Appends one event and has it take effect, all or nothing.

        Args:
            box: whose event it is.
            number: one more than that of the box's last event, as far as the writer knows.
            event: what happened.

        Raises:
            NameTakenError: it would give a box a name that a living one has.
            ValueError: it cannot follow what is known of its box.
        """
        with self._transaction() as connection:
            return self._append(connection, box, number, event)

    def since(self, cursor: int = 0, *, most: int = 500) -> tuple[list[StoredEvent], int]:
        """The events after a cursor, in the order of their writing.

        Returns:
            The events, and the cursor after the last of them.
        """
        query = "SELECT * FROM events WHERE seq > :cursor ORDER BY seq LIMIT :most"
        with self._reading() as read:
            rows = read(query, {"cursor": cursor, "most": most})
        return list(map(_event, rows)), rows[-1]["seq"] if rows else cursor

    def history(self, box: str) -> list[StoredEvent]:
        """Every event of a box, oldest first."""
        with self._reading() as read:
            return list(
                map(_event, read("SELECT * FROM events WHERE box = :box ORDER BY number", {"box": box}))
            )

    def close(self) -> None:
        """Closes the file; a later call opens it again."""
        _close_all(self._idle)

    # --- writing

    def plan_box(
        self,
        *,
        id: str,  # noqa: A002  (the field's own name)
        name: str,
        owner: str,
        run_id: str | None,
        op: str,
        expires_at: datetime | None,
        facts: Facts,
        lease: Lease,
        alone: bool = False,
    ) -> Box:
        """Writes a new box down and takes its lease, before anything is asked of a cloud.

        Raises:
            NameTakenError: a living box of this owner has the name.
            RunTakenError: it is to be alone in its run, and another box of the run is living.
        """
        planned = Planned(
            name=name,
            owner=owner,
            run_id=run_id,
            op=op,
            expires_at=expires_at,
            lease=lease,
            facts=facts,
        )
        with self._transaction() as connection:
            if alone:
                _refuse_taken_run(connection, owner, run_id)
            self._add(connection, id, 0, 0, planned)
            box = self._box(connection, id)
        self._held[id] = (box.epoch, lease)
        return box

    def recover_box(
        self,
        *,
        id: str,  # noqa: A002  (the field's own name)
        name: str,
        tags: Tags,
        state: BoxState,
        created_at: datetime,
        expires_at: datetime | None,
        facts: Facts,
        resources: Sequence[NamedRef],
    ) -> Box | None:
        """Writes down a box that was found by its tags; ``None`` where the journal knows it already.

        Args:
            id: the box's.
            name: what it is called, if no living box of its owner is called so.
            tags: whose it is.
            state: what it seems to be.
            created_at: when its machine was made.
            expires_at: its end.
            facts: as of every box.
            resources: what was found of it.
        """
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM boxes WHERE id = ?", (id,)).fetchone():
                return None
            living = f"SELECT name FROM boxes WHERE owner = ? AND {LIVING}"  # noqa: S608  # nosec B608
            taken = {row[0] for row in connection.execute(living, (tags.owner,))}
            others = (f"{name[:37]}-{number}" for number in itertools.count(2))
            recovered = Recovered(
                name=next(each for each in itertools.chain([name], others) if each not in taken),
                owner=tags.owner,
                run_id=tags.run or None,
                op=tags.op,
                state=state,
                created_at=created_at,
                expires_at=expires_at,
                facts=facts,
                resources=tuple(resources),
            )
            self._add(connection, id, 0, 0, recovered)
            return self._box(connection, id)

    def take(
        self, box: str, lease: Lease, *, claim: Callable[[Lease | None], Claim], by_force: bool = False
    ) -> Box | None:
        """Takes a box's lease and raises its epoch.

        Args:
            box: its id.
            lease: that of this process.
            claim: what the present lease means to this process.
            by_force: also from a holder that lives, who may write nothing from then on.

        Returns:
            The box; ``None`` where its holder lives and ``by_force`` is not set.
        """
        with self._transaction() as connection:
            now = self._box(connection, box)
            found = claim(now.lease)
            if found is Claim.HELD and not by_force:
                return None
            # Who is not proven dead may stand directly before its create call.
            self._add(
                connection, box, now.epoch, now.number, Taken(lease=lease, over=found is not Claim.FREE)
            )
            taken = self._box(connection, box)
        self._held[box] = (taken.epoch, lease)
        return taken

    def renew(self) -> None:
        """Renews every lease that this process holds. That is no event: later it tells nothing."""
        held = dict(self._held)
        if not held:
            return
        now = self.now()
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE boxes SET lease = :lease WHERE id = :box AND epoch = :epoch AND lease IS NOT NULL",
                [
                    {"box": box, "epoch": epoch, "lease": json.dumps(plain(replace(lease, beat=now)))}
                    for box, (epoch, lease) in held.items()
                ],
            )

    def check(self, box: Box) -> None:
        """Looks whether this process, which held a box, still holds it.

        Raises:
            StaleWriterError: it does not.
            JournalError: the journal cannot tell, or was replaced.
        """
        self._file.check()
        with self._reading() as read:
            [row] = read("SELECT epoch FROM boxes WHERE id = :box", {"box": box.id})
        if row["epoch"] != box.epoch:
            raise _stale(box)

    def held(self, box: Box) -> Box:
        """A box that this process holds, as it is now.

        Raises:
            StaleWriterError: the box was taken over since ``box`` was read.
        """
        now = self.box(box.id)
        if now.epoch != box.epoch:
            raise _stale(box)
        return now

    def write(self, box: Box, event: Event) -> None:
        """Appends one event about a box that this process holds.

        Raises:
            StaleWriterError: the box was taken over since ``box`` was read.
        """
        with self._transaction() as connection:
            # Who does not hold a box may have appended what it observed: the epoch is what counts.
            [number] = connection.execute("SELECT number FROM boxes WHERE id = ?", (box.id,)).fetchone()
            if self._add(connection, box.id, box.epoch, number, event) is Appended.STALE:
                raise _stale(box)

    def release(self, box: Box) -> None:
        """Says that we hold a box no more; where that cannot be written, the end of this process says it."""
        self._held.pop(box.id, None)
        with suppress(JournalError, StaleWriterError):
            self.write(box, Released())

    def observe(self, box: Box, facts: Facts = NOTHING_TOLD, *, state: BoxState | None = None) -> bool:
        """Appends what was seen of a box that this process need not hold.

        What was seen is dropped where it is out of date: another process has taken the box meanwhile, or its
        state is beyond the one that was seen.

        Returns:
            Whether it was written.
        """
        with self._transaction() as connection:
            now = self._box(connection, box.id)
            beyond = now.state in OVER or (state is not None and not may_become(now.state, state))
            if beyond:
                return False
            seen = Seen(state=state, facts=facts)
            return self._add(connection, box.id, box.epoch, now.number, seen) is Appended.WRITTEN

    # --- reading

    def box(self, id: str) -> Box:  # noqa: A002
        """The box with this id. Raises ``KeyError``."""
        with self._connection() as connection, _snapshot(connection):
            return self._box(connection, id)

    def boxes(self, *, owner: str, over: bool = False) -> list[Box]:
        """An owner's boxes, oldest first; ``over`` adds those that are deleted or failed."""
        return self._boxes("owner = :owner" + ("" if over else f" AND {LIVING}"), {"owner": owner})

    def known(self, ids: Collection[str]) -> list[Box]:
        """The boxes of these ids that the journal has, in whatever state."""
        return [box for condition, values in _among("id", ids) for box in self._boxes(condition, values)]

    def named(self, owner: str, name: str) -> list[Box]:
        """An owner's boxes with this name or id, in whatever state, oldest first."""
        found = [
            box
            for column in ("name", "id")
            for box in self._boxes(f"owner = :owner AND {column} = :name", {"owner": owner, "name": name})
        ]
        return sorted({box.id: box for box in found}.values(), key=lambda box: box.id)

    def intents(self, box: str | None = None, *, unresolved: bool = False) -> list[Intent]:
        """Create intents, oldest first: of one box, or those without a known outcome."""
        query = f"SELECT * FROM intents{_where(box, UNRESOLVED if unresolved else None)} ORDER BY at, id"  # noqa: S608  # nosec B608
        with self._reading() as read:
            return list(map(_intent, read(query, {"box": box})))

    def resources(self, box: str | None = None, *, present: bool = True) -> list[ResourceRow]:
        """Resources that are or may be there, in the order in which they were made."""
        query = f"SELECT * FROM resources{_where(box, PRESENT if present else None)} ORDER BY n"  # noqa: S608  # nosec B608
        with self._reading() as read:
            return list(map(_resource, read(query, {"box": box})))

    def resources_of(self, ids: Collection[str]) -> list[ResourceRow]:
        """Every resource that these boxes ever had, in whatever state."""
        with self._reading() as read:
            return [
                _resource(row)
                for condition, values in _among("box", ids)
                for row in read(f"SELECT * FROM resources WHERE {condition}", values)  # noqa: S608  # nosec B608
            ]

    def rebuild(self) -> None:
        """Empties the tables and replays every event into them."""
        with self._transaction() as connection:
            for table in PROJECTIONS:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  # nosec B608
            replay(connection)

    # --- inside

    def _add(
        self, connection: sqlite3.Connection, box: str, epoch: int, number: int, event: Event
    ) -> Appended:
        """Appends an event after those that are there: who asks has read their number in this transaction."""
        return self._append(connection, box, number + 1, NewEvent(id=uuid4().hex, epoch=epoch, event=event))

    def _append(self, connection: sqlite3.Connection, box: str, number: int, new: NewEvent) -> Appended:
        if connection.execute("SELECT 1 FROM events WHERE id = ?", (new.id,)).fetchone():
            return Appended.WAS_WRITTEN
        row = connection.execute("SELECT epoch, number FROM boxes WHERE id = ?", (box,)).fetchone()
        if tuple(row or (0, 0)) != (new.epoch, number - 1):
            return Appended.STALE
        at = self._clock().isoformat()
        connection.execute(
            "INSERT INTO events (id, at, box, number, type, version, data)"
            " VALUES (:id, :at, :box, :number, :type, :version, :data)",
            {
                "id": new.id,
                "at": at,
                "box": box,
                "number": number,
                "type": new.event.type,
                "version": VERSION,
                "data": new.event.payload(),
            },
        )
        try:
            project(connection, box, number, at, new.event)
        except sqlite3.IntegrityError as error:
            if "boxes.name" not in str(error):
                raise
            name = getattr(new.event, "name", "")
            raise NameTakenError(
                f"a box named {name!r} exists already",
                hint=f"choose another --name, or end it: gpucloud down {name}",
            ) from error
        return Appended.WRITTEN

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        """A connection that nobody else uses meanwhile; it is kept for the next one."""
        try:
            connection = self._idle.pop()
        except IndexError:
            self._file.check()
            connection = connect(self._file.path, busy_s=self._busy_s)
            connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            self._idle.append(connection)

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._lock, _explained(None), self._connection() as connection, transaction(connection):
            yield connection
            self._file.check()

    @contextmanager
    def _reading(self) -> Generator[Callable[..., list[sqlite3.Row]]]:
        """Gives what runs a query; all of them see one snapshot."""
        with _explained(None), self._connection() as connection, _snapshot(connection):
            yield partial(_rows, connection)

    def _box(self, connection: sqlite3.Connection, id: str) -> Box:  # noqa: A002
        found = _read_boxes(connection, "id = :id", {"id": id})
        if not found:
            raise KeyError(id)
        return found[0]

    def _boxes(self, condition: str, values: Mapping[str, Any]) -> list[Box]:
        with _explained(None), self._connection() as connection, _snapshot(connection):
            return _read_boxes(connection, condition, values)


def _stale(box: Box) -> StaleWriterError:
    return StaleWriterError(
        f"box {box.name!r} was taken over by another gpucloud", hint="see its state: gpucloud list"
    )


def _refuse_taken_run(connection: sqlite3.Connection, owner: str, run_id: str | None) -> None:
    other = connection.execute(
        f"SELECT name FROM boxes WHERE owner = ? AND run_id = ? AND {LIVING}",  # noqa: S608  # nosec B608
        (owner, run_id),
    ).fetchone()
    if other is not None:
        raise RunTakenError(
            f"run {run_id!r} exists already: it has the box {other[0]!r}",
            hint=f"choose another --run-id, or end it: gpucloud down --run-id {run_id}",
        )


# --- rows to values


def _read_boxes(connection: sqlite3.Connection, condition: str, values: Mapping[str, Any]) -> list[Box]:
    """The boxes of a condition, by id, with what other tables hold of them: all within one transaction."""
    rows = _rows(connection, f"SELECT * FROM boxes WHERE {condition} ORDER BY id", values)  # noqa: S608  # nosec B608
    if not rows:
        return []
    of_these = f"box IN (SELECT id FROM boxes WHERE {condition})"  # noqa: S608  # nosec B608
    nodes: dict[str, list[Node]] = defaultdict(list)
    for row in _rows(connection, f"SELECT * FROM nodes WHERE {of_these} ORDER BY box, number", values):  # noqa: S608  # nosec B608
        nodes[row["box"]].append(_node(row))
    usage: dict[str, list[Usage]] = defaultdict(list)
    for row in _rows(connection, f"SELECT * FROM usage WHERE {of_these} ORDER BY n", values):  # noqa: S608  # nosec B608
        usage[row["box"]].append(_usage(row))
    return [_read_box(row, nodes[row["id"]], usage[row["id"]]) for row in rows]


def _read_box(row: sqlite3.Row, nodes: Iterable[Node], usage: Iterable[Usage]) -> Box:
    values = _values(row)
    lease: dict[str, Any] | None = json.loads(values["lease"]) if values["lease"] else None
    values |= {key: _time(value) for key, value in values.items() if key.endswith("_at")}
    if lease:
        lease["beat"] = datetime.fromisoformat(lease["beat"])
    facts = read_facts(json.loads(values.pop("facts"))).told
    facts.pop("zone", None)  # told before the place that it is in
    values |= {
        "state": BoxState(values["state"]),
        "lease": Lease(**lease) if lease else None,
        "nodes": tuple(nodes),
        "usage": tuple(usage),
    }
    return Box(**values, **facts)


def _node(row: sqlite3.Row) -> Node:
    return Node(
        instance_id=row["instance_id"],
        state=State(row["state"]),
        public_ip=row["public_ip"],
        private_ip=row["private_ip"],
        billed=bool(row["billed"]),
        started_at=_time(row["started_at"]),
        ended_at=_time(row["ended_at"]),
        taken_back=bool(row["taken_back"]),
    )


def _usage(row: sqlite3.Row) -> Usage:
    price = None
    if row["price"] is not None:
        day = date.fromisoformat(row["as_of"]) if row["as_of"] else None
        price = Price(amount=Decimal(row["price"]), currency=row["currency"], as_of=day, source=row["source"])
    return Usage(
        box=row["box"],
        resource=row["resource"],
        part=row["part"],
        start=datetime.fromisoformat(row["started_at"]),
        end=_time(row["ended_at"]),
        price=price,
        gib=row["gib"],
        paid_before=bool(row["paid_before"]),
    )


def _intent(row: sqlite3.Row) -> Intent:
    values = _values(row)
    values |= {name: Decimal(values[name]) for name in ("price", "ceiling_usd") if values[name]}
    values["at"] = datetime.fromisoformat(values["at"])
    return Intent(**values)


def _resource(row: sqlite3.Row) -> ResourceRow:
    ref = Ref(
        cloud=row["cloud"],
        account=row["account"],
        region=row["region"],
        kind=ResourceKind(row["kind"]),
        id=row["id"],
    )
    at = datetime.fromisoformat(row["at"])
    return ResourceRow(box=row["box"], ref=ref, name=row["name"], state=row["state"], at=at)


def _event(row: sqlite3.Row) -> StoredEvent:
    return StoredEvent(
        id=row["id"],
        at=datetime.fromisoformat(row["at"]),
        box=row["box"],
        number=row["number"],
        event=read(row["type"], row["version"], json.loads(row["data"])),
    )


def _values(row: sqlite3.Row) -> dict[str, Any]:
    return dict(zip(row.keys(), row, strict=True))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


# --- SQL


def _where(box: str | None, condition: str | None) -> str:
    conditions = [each for each in (box and "box = :box", condition) if each]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _among(column: str, ids: Collection[str]) -> Generator[tuple[str, dict[str, str]]]:
    """Conditions that a column has one of these values, with the values; of very many, some at a time."""
    wanted = sorted(ids)
    for first in range(0, len(wanted), _IDS_AT_ONCE):
        values = {f"v{number}": id_ for number, id_ in enumerate(wanted[first : first + _IDS_AT_ONCE])}
        yield f"{column} IN ({', '.join(f':{name}' for name in values)})", values


def _rows(connection: sqlite3.Connection, query: str, values: Mapping[str, Any]) -> list[sqlite3.Row]:
    return connection.execute(query, values).fetchall()


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Generator[None]:
    """All queries of the body see the journal as it is at the first."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()  # nothing, where SQLite itself has ended it


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


# --- the file


class _File:
    """The file behind a journal: SQLite itself goes on writing to one that was deleted or moved away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: tuple[int, int] | None = None

    def hold(self) -> None:
        """Makes it where it is missing. Only the user may read it; SQLite's side files get the same mode."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._held = _identity(os.fstat(handle))
        finally:
            os.close(handle)

    def check(self) -> None:
        """Lets nothing be written, and no connection made, once another file is in its place.

        Raises:
            JournalError: it was deleted, moved or replaced.
        """
        try:
            same = self._held == _identity(self.path.stat())
        except FileNotFoundError:
            same = False
        if not same:
            raise JournalError(
                f"the journal {self.path} was deleted, moved or replaced while this command ran",
                hint="put the file back; or take in what runs, by its tags: gpucloud recover",
            )

    def time(self, otherwise: Callable[[], datetime]) -> datetime:
        """The time by the clock of its file system; by another clock where it cannot be touched."""
        try:
            os.utime(self.path)
            return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        except OSError:
            return otherwise()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


@contextmanager
def _explained(path: Path | None) -> Generator[None]:
    """Turns SQLite's and the file system's complaints into words that say what to do."""
    where = f" {path}" if path else ""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise JournalError(f"the journal{where} cannot be used: {error}", hint=_mend(str(error))) from error


def _mend(text: str) -> str:
    lowered = text.lower()
    cases: Sequence[tuple[str, str]] = (
        ("malformed", _DAMAGED),
        ("not a database", _DAMAGED),
        ("locked", "another gpucloud is writing; wait for it, or end it"),
        ("full", "free some disk space"),
        ("no space", "free some disk space"),
        ("readonly", "make the file and its folder writable"),
        ("permission", "make the file and its folder yours and writable"),
    )
    return next((hint for word, hint in cases if word in lowered), "check the file and its folder")
