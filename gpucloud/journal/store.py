"""The journal: an append-only record of what was meant and what happened, and the tables read from it.

Every change is one event, written in the same transaction as its effect on the tables ``boxes``, ``intents``
and ``things``; replaying the events gives the same tables. SQLite with a write-ahead log and
``synchronous=FULL``: when a call here returns, the event survives a crash of the machine.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc, pool

from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.lifecycle import OVER, BoxState, Claim, Lease, may_become
from gpucloud.journal.schema import (
    LIVING,
    PRESENT,
    PROJECT,
    UNRESOLVED,
    VERSION,
    Data,
    boxes,
    events,
    intents,
    migrate,
    resources,
)
from gpucloud.resources import Ref, ResourceKind, State, Tags, rfc3339

_BUSY_PAUSE_S = 0.02
_IDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One box as the journal has it. ``facts`` is plain JSON; see ``docs/journal.md`` for its keys.

    ``taken_over_at`` is when it was last taken from a holder that was not proven dead.
    """

    id: str
    name: str
    owner: str
    run_id: str | None
    op: str
    state: BoxState
    epoch: int
    lease: Lease | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    seen_at: datetime | None
    taken_over_at: datetime | None
    facts: Data

    @property
    def price_per_hour(self) -> Decimal | None:
        """Per hour and node, in ``facts["price"]["currency"]``; ``None`` before an offer was chosen."""
        price = self.facts.get("price")
        return Decimal(price["amount"]) if price else None

    @property
    def compute_ended_at(self) -> datetime | None:
        """When its machines ceased to be billed; ``None`` while one is."""
        nodes: Sequence[Data] = self.facts.get("nodes") or ()
        ends = [datetime.fromisoformat(node["ended_at"]) for node in nodes if "ended_at" in node]
        seen = max(ends) if nodes and len(ends) == len(nodes) else None
        return min(filter(None, (seen, self.ended_at)), default=None)

    @property
    def gone_nodes(self) -> int:
        """How many of its nodes are gone, as far as somebody has looked."""
        return sum(node["state"] == State.GONE for node in self.facts.get("nodes") or ())

    def node_ends(self, until: datetime, *, kept: bool = False) -> list[datetime]:
        """When each node ceased to be billed, or ``until``; one ``until`` where no node is known yet.

        Args:
            until: the end of those that are billed.
            kept: of what a cloud keeps of a machine that is switched off: its disk and address.
        """
        nodes: Sequence[Data] = self.facts.get("nodes") or ({},)
        ended = [n.get("ended_at") if n.get("state") == State.GONE or not kept else None for n in nodes]
        return [datetime.fromisoformat(at) if at else until for at in ended]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One create call that was meant to be made."""

    id: str
    box: str
    cloud: str
    account: str
    region: str
    token: str
    status: str
    at: datetime
    data: Data


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """One thing that a box is accountable for. ``at`` is when its state last changed."""

    box: str
    ref: Ref
    name: str
    state: str
    at: datetime


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
        engine: sa.Engine,
        file: _File,
        clock: Callable[[], datetime],
        lease_clock: Callable[[], datetime],
    ) -> None:
        self._engine = engine
        self._reader = engine.execution_options(reads=True)
        self._file = file
        self._clock = clock
        self.now = lease_clock
        """Gives the time by which leases age."""
        self._held: dict[str, tuple[int, Lease]] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Callable[[], datetime],
        *,
        busy_s: float = 30.0,
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

        def connect() -> sqlite3.Connection:
            file.check()
            connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA synchronous = FULL")
            return connection

        engine = sa.create_engine("sqlite://", creator=connect, poolclass=pool.QueuePool, pool_size=2)
        # The driver must not begin transactions by itself: a write begins with the write lock, or not at all.
        event.listen(engine, "begin", _begin_immediate)
        journal = cls(engine, file, clock, lease_clock or partial(file.time, clock))
        with _explained(path):
            file.hold()
            journal._migrate(path, busy_s)
        return journal

    def _migrate(self, path: Path, busy_s: float) -> None:
        with self._reader.connect() as raw:
            driver = raw.connection.driver_connection
            assert driver is not None  # noqa: S101  (a pooled connection always has one)
            _use_wal(driver, busy_s)
            version = int(driver.execute("PRAGMA user_version").fetchone()[0])
        if version == VERSION:
            return
        if version > VERSION:
            raise UsageError(
                f"the journal {path} was written by a newer gpucloud (schema {version}, this one knows"
                f" {VERSION})",
                hint="use that newer version; nothing was read or changed",
            )
        with self._engine.begin() as connection:
            migrate(connection, int(connection.exec_driver_sql("PRAGMA user_version").scalar_one()))
            connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        """Closes the file; a later call opens it again."""
        self._engine.dispose()

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
        facts: Data,
        lease: Lease,
        alone: bool = False,
    ) -> Box:
        """Writes a new box down and takes its lease, before anything is asked of a cloud.

        Raises:
            NameTakenError: a living box of this owner has the name.
            RunTakenError: it is to be alone in its run, and another box of the run is living.
        """
        data = {
            "name": name,
            "owner": owner,
            "run_id": run_id,
            "op": op,
            "expires_at": rfc3339(expires_at) if expires_at else None,
            "facts": facts,
            "lease": _lease_json(lease),
        }
        try:
            with self._transaction() as connection:
                if alone:
                    _refuse_taken_run(connection, owner, run_id)
                self._append(connection, id, "planned", data)
                box = self._box(connection, id)
        except exc.IntegrityError as error:
            raise NameTakenError(
                f"a box named {name!r} is living already",
                hint=f"choose another --name, or end it: gpucloud down {name}",
            ) from error
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
        facts: Data,
        resources: Sequence[Data],
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
            things: what was found of it, as events hold things.
        """
        with self._transaction() as connection:
            if connection.execute(sa.select(boxes.c.id).where(boxes.c.id == id)).first() is not None:
                return None
            living = sa.and_(boxes.c.owner == tags.owner, LIVING)
            taken = set(connection.execute(sa.select(boxes.c.name).where(living)).scalars())
            others = (f"{name[:37]}-{number}" for number in itertools.count(2))
            data = {
                "name": next(each for each in itertools.chain([name], others) if each not in taken),
                "owner": tags.owner,
                "run_id": tags.run or None,
                "op": tags.op,
                "state": str(state),
                "created_at": created_at.isoformat(),
                "expires_at": rfc3339(expires_at) if expires_at else None,
                "facts": facts,
                "things": list(resources),
            }
            self._append(connection, id, "recovered", data)
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
            self._append(
                connection, box, "taken", {"lease": _lease_json(lease), "over": found is not Claim.FREE}
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
            for box, (epoch, lease) in held.items():
                text = json.dumps(_lease_json(replace(lease, beat=now)))
                connection.execute(_RENEW, {"box": box, "of_epoch": epoch, "lease": text})

    def check(self, box: Box) -> None:
        """Looks whether this process, which held a box, still holds it.

        Raises:
            StaleWriterError: it does not.
            JournalError: the journal cannot tell, or was replaced.
        """
        self._file.check()
        with self._reader.connect() as connection:
            _refuse_stale(connection, box)

    def held(self, box: Box) -> Box:
        """A box that this process holds, as it is now.

        Raises:
            StaleWriterError: the box was taken over since ``box`` was read.
        """
        now = self.box(box.id)
        if now.epoch != box.epoch:
            raise _stale(box)
        return now

    def write(self, box: Box, type: str, data: Data | None = None) -> None:  # noqa: A002
        """Appends one event about a box that this process holds.

        Raises:
            StaleWriterError: the box was taken over since ``box`` was read.
        """
        with self._transaction() as connection:
            _refuse_stale(connection, box)
            self._append(connection, box.id, type, data or {})

    def release(self, box: Box) -> None:
        """Says that we hold a box no more; where that cannot be written, the end of this process says it."""
        self._held.pop(box.id, None)
        with suppress(JournalError, StaleWriterError):
            self.write(box, "released")

    def observe(self, box: Box, *, facts: Data | None = None, state: BoxState | None = None) -> bool:
        """Appends what was seen of a box that this process need not hold.

        What was seen is dropped where it is out of date: another process has taken the box meanwhile, or its
        state is beyond the one that was seen.

        Returns:
            Whether it was written.
        """
        with self._transaction() as connection:
            now = self._box(connection, box.id)
            beyond = now.state in OVER or (state is not None and not may_become(now.state, state))
            if now.epoch != box.epoch or beyond:
                return False
            data = {"facts": facts} if facts else {}
            self._append(connection, box.id, "seen", {**data, **({"state": str(state)} if state else {})})
            return True

    # --- reading

    def box(self, id: str) -> Box:  # noqa: A002
        """The box with this id. Raises ``KeyError``."""
        with self._reader.connect() as connection:
            return self._box(connection, id)

    def boxes(self, *, owner: str, over: bool = False) -> list[Box]:
        """An owner's boxes, oldest first; ``over`` adds those that are deleted or failed."""
        with self._reader.connect() as connection:
            return [_box(row) for row in connection.execute(_boxes(over=over), {"owner": owner}).mappings()]

    def known(self, ids: Collection[str]) -> list[Box]:
        """The boxes of these ids that the journal has, in whatever state."""
        return [_box(row) for row in self._among(_BOXES_AMONG, ids)]

    def named(self, owner: str, name: str) -> list[Box]:
        """An owner's boxes with this name or id, in whatever state, oldest first."""
        with self._reader.connect() as connection:
            rows = connection.execute(_NAMED, {"owner": owner, "name": name}).mappings()
            return sorted(map(_box, rows), key=lambda box: box.id)

    def intents(self, box: str | None = None, *, unresolved: bool = False) -> list[Intent]:
        """Create intents, oldest first: of one box, or those without a known outcome."""
        query = _intents(of_box=box is not None, unresolved=unresolved)
        with self._reader.connect() as connection:
            return [_intent(row) for row in connection.execute(query, {"box": box}).mappings()]

    def resources(self, box: str | None = None, *, present: bool = True) -> list[ResourceRow]:
        """Things that are or may be there, in the order in which they were made."""
        query = _resources(of_box=box is not None, present=present)
        with self._reader.connect() as connection:
            return [_resource(row) for row in connection.execute(query, {"box": box}).mappings()]

    def resources_of(self, ids: Collection[str]) -> list[ResourceRow]:
        """Every thing that these boxes ever had, in whatever state."""
        return [_resource(row) for row in self._among(_RESOURCES_AMONG, ids)]

    def history(self, box: str) -> list[tuple[str, str, Data]]:
        """Every event of a box: (time, type, data)."""
        query = sa.select(events).where(events.c.box == box).order_by(events.c.seq)
        with self._reader.connect() as connection:
            return [
                (row["at"], row["type"], json.loads(row["data"]))
                for row in connection.execute(query).mappings()
            ]

    def rebuild(self) -> None:
        """Empties the tables and replays every event into them."""
        with self._transaction() as connection:
            for table in (boxes, intents, resources):
                connection.execute(sa.delete(table))
            rows = connection.execute(sa.select(events).order_by(events.c.seq)).mappings().all()
            for row in rows:
                PROJECT[row["type"]](connection, row["box"], row["at"], json.loads(row["data"]))

    # --- inside

    def _among(self, query: sa.Select[Any], ids: Collection[str]) -> list[Mapping[Any, Any]]:
        """The rows of a query that names some ids; of very many, some at a time."""
        wanted, rows = sorted(ids), list[Mapping[Any, Any]]()
        with self._reader.connect() as connection:
            for first in range(0, len(wanted), _IDS_AT_ONCE):
                some = {"ids": wanted[first : first + _IDS_AT_ONCE]}
                rows += connection.execute(query, some).mappings().all()
        return rows

    @contextmanager
    def _transaction(self) -> Generator[sa.Connection]:
        with self._lock, _explained(None), self._engine.begin() as connection:
            yield connection
            self._file.check()

    def _append(self, connection: sa.Connection, box: str, type: str, data: Data) -> None:  # noqa: A002
        at = self._clock().isoformat()
        text = json.dumps(data, sort_keys=True)
        connection.execute(_ADD_EVENT, {"at": at, "box": box, "type": type, "data": text})
        PROJECT[type](connection, box, at, json.loads(text))

    def _box(self, connection: sa.Connection, id: str) -> Box:  # noqa: A002
        row = connection.execute(_BOX, {"box": id}).mappings().first()
        if row is None:
            raise KeyError(id)
        return _box(row)


def _refuse_stale(connection: sa.Connection, box: Box) -> None:
    if connection.execute(_EPOCH, {"box": box.id}).scalar_one() != box.epoch:
        raise _stale(box)


def _stale(box: Box) -> StaleWriterError:
    return StaleWriterError(
        f"box {box.name!r} was taken over by another gpucloud", hint="see what it does: gpucloud list"
    )


def _refuse_taken_run(connection: sa.Connection, owner: str, run_id: str | None) -> None:
    query = sa.select(boxes.c.name).where(boxes.c.owner == owner, boxes.c.run_id == run_id, LIVING)
    other = connection.execute(query).scalar()
    if other is not None:
        raise RunTakenError(
            f"run {run_id!r} is under way already: it has the box {other!r}",
            hint=f"choose another --run-id, or end it: gpucloud down --run-id {run_id}",
        )


# --- statements, made once: that takes longer than to run one

_ADD_EVENT = sa.insert(events)
_BOX = sa.select(boxes).where(boxes.c.id == sa.bindparam("box"))
_BOXES_AMONG = sa.select(boxes).where(boxes.c.id.in_(sa.bindparam("ids", expanding=True)))
_RESOURCES_AMONG = sa.select(resources).where(resources.c.box.in_(sa.bindparam("ids", expanding=True)))
_NAMED = sa.union(
    *(
        sa.select(boxes).where(boxes.c.owner == sa.bindparam("owner"), column == sa.bindparam("name"))
        for column in (boxes.c.name, boxes.c.id)
    )
)
_EPOCH = sa.select(boxes.c.epoch).where(boxes.c.id == sa.bindparam("box"))
_RENEW = sa.update(boxes).where(
    boxes.c.id == sa.bindparam("box"), boxes.c.epoch == sa.bindparam("of_epoch"), boxes.c.lease.is_not(None)
)


@cache
def _boxes(*, over: bool) -> sa.Select[Any]:
    query = sa.select(boxes).where(boxes.c.owner == sa.bindparam("owner")).order_by(boxes.c.id)
    return query if over else query.where(LIVING)


@cache
def _intents(*, of_box: bool, unresolved: bool) -> sa.Select[Any]:
    query = sa.select(intents).order_by(intents.c.at, intents.c.id)
    if of_box:
        query = query.where(intents.c.box == sa.bindparam("box"))
    return query.where(UNRESOLVED) if unresolved else query


@cache
def _resources(*, of_box: bool, present: bool) -> sa.Select[Any]:
    query = sa.select(resources).order_by(resources.c.n)
    if of_box:
        query = query.where(resources.c.box == sa.bindparam("box"))
    return query.where(PRESENT) if present else query


# --- rows to values


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _box(row: Mapping[Any, Any]) -> Box:
    values: dict[str, Any] = dict(row)
    lease: dict[str, Any] | None = json.loads(values["lease"]) if values["lease"] else None
    values |= {key: _time(value) for key, value in values.items() if key.endswith("_at")}
    if lease:
        lease["beat"] = datetime.fromisoformat(lease["beat"])
    values |= {
        "state": BoxState(values["state"]),
        "lease": Lease(**lease) if lease else None,
        "facts": json.loads(values["facts"]),
    }
    return Box(**values)


def _intent(row: Mapping[Any, Any]) -> Intent:
    values: dict[str, Any] = dict(row)
    values |= {"at": datetime.fromisoformat(row["at"]), "data": json.loads(row["data"])}
    return Intent(**values)


def _resource(row: Mapping[Any, Any]) -> ResourceRow:
    ref = Ref(
        cloud=row["cloud"],
        account=row["account"],
        region=row["region"],
        kind=ResourceKind(row["kind"]),
        id=row["id"],
    )
    at = datetime.fromisoformat(row["at"])
    return ResourceRow(box=row["box"], ref=ref, name=row["name"], state=row["state"], at=at)


def _lease_json(lease: Lease) -> Data:
    return {
        "host": lease.host,
        "boot": lease.boot,
        "namespace": lease.namespace,
        "pid": lease.pid,
        "started": lease.started,
        "beat": lease.beat.isoformat(),
    }


# --- SQLite


def _begin_immediate(connection: sa.Connection) -> None:
    """Reads see one snapshot; writers queue at the start, where waiting is safe, not in the middle."""
    if connection.get_execution_options().get("reads"):
        connection.exec_driver_sql("BEGIN")
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


class _File:
    """The file behind a journal: SQLite itself goes on writing to one that was deleted or moved away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: tuple[int, int] | None = None

    def hold(self) -> None:
        """Makes it where it is missing. Only the user may read it; SQLite's side files get the same mode."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
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
            same = self._held == _identity(self._path.stat())
        except FileNotFoundError:
            same = False
        if not same:
            raise JournalError(
                f"the journal {self._path} was deleted, moved or replaced while this command ran",
                hint="put the file back; or take in what runs, by its tags: gpucloud recover",
            )

    def time(self, otherwise: Callable[[], datetime]) -> datetime:
        """The time by the clock of its file system; by another clock where it cannot be touched."""
        try:
            os.utime(self._path)
            return datetime.fromtimestamp(self._path.stat().st_mtime, UTC)
        except OSError:
            return otherwise()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _use_wal(driver: sqlite3.Connection, busy_s: float) -> None:
    """Gives a new file its write-ahead log. SQLite itself does not wait for another who does so."""
    until = time.monotonic() + busy_s
    while True:
        try:
            driver.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_BUSY_PAUSE_S)


@contextmanager
def _explained(path: Path | None) -> Generator[None]:
    """Turns SQLite's and the file system's complaints into words that say what to do."""
    where = f" {path}" if path else ""
    try:
        yield
    except (exc.DBAPIError, sqlite3.Error, OSError) as error:
        if isinstance(error, exc.IntegrityError):
            raise
        text = str(error.orig if isinstance(error, exc.DBAPIError) else error)
        raise JournalError(f"the journal{where} cannot be used: {text}", hint=_mend(text)) from error


def _mend(text: str) -> str:
    lowered = text.lower()
    cases: Sequence[tuple[str, str]] = (
        ("malformed", "it is damaged: restore a copy, or move it aside; boxes still running carry your tags"),
        (
            "not a database",
            "it is damaged: restore a copy, or move it aside; boxes still running carry your tags",
        ),
        ("locked", "another gpucloud is writing; wait for it, or end it"),
        ("full", "free some disk space"),
        ("no space", "free some disk space"),
        ("readonly", "make the file and its folder writable"),
        ("permission", "make the file and its folder yours and writable"),
    )
    return next((hint for word, hint in cases if word in lowered), "check the file and its folder")
