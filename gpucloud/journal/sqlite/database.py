"""The SQLite file of a journal: how it is opened, read in one snapshot, and changed all or nothing.

A write-ahead log and ``synchronous=FULL``: what was committed survives a crash of the machine.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from gpucloud.errors import UsageError
from gpucloud.journal import backend
from gpucloud.journal.errors import JournalError, NameTakenError, RunLivesError, refuse_kind
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.reading import Ask, Reader, values_of
from gpucloud.journal.records import Run, StoredEvent
from gpucloud.journal.rows import COLUMNS, lease_text, row_of, row_of_event
from gpucloud.journal.sqlite.schema import STEPS, VERSION
from gpucloud.journal.state import State
from gpucloud_pricing.sqlite_file import BUSY_S, connect, migrate, transaction, use_wal, version_of

_APPEND = """INSERT INTO events (id, at, box, number, type, version, data)
VALUES (:id, :at, :box, :number, :type, :version, :data)"""
_BEGIN = f"INSERT INTO states ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{each}' for each in COLUMNS)})"  # noqa: S608
_RENEW = "UPDATE states SET lease = :lease WHERE id = :id AND epoch = :epoch AND lease IS NOT NULL"


def asking(connection: sqlite3.Connection) -> Ask:
    """Asks a connection, which is in a transaction: its queries are of one moment."""
    return lambda queries: [connection.execute(query, values).fetchall() for query, values in queries]


class Writer(backend.Writer):
    """Writes by a connection that is in a transaction, and reads what it has written."""

    def __init__(self, connection: sqlite3.Connection, damaged: dict[str, str]) -> None:
        super().__init__(asking(connection), damaged)
        self._connection = connection
        self._kept: dict[str, dict[str, Any]] = {}
        """The rows of the states that this change has read or written."""

    def _read(self, ids: Collection[str], *, fresh: bool) -> dict[str, State | None]:  # noqa: ARG002
        found: dict[str, State | None] = dict.fromkeys(ids)
        for id_ in ids:
            for row in self._rows("SELECT * FROM states WHERE id = :id", {"id": id_}):
                self._kept[id_] = values_of(row)
                found[id_] = self._state_of(self._kept[id_])
        return found

    def _write(self, stored: StoredEvent, after: State) -> None:
        self._connection.execute(_APPEND, row_of_event(stored))
        row = row_of(after)
        try:
            self._keep(row)
        except sqlite3.IntegrityError as error:
            if "states.name" not in str(error):
                raise
            taken = RunLivesError if isinstance(after, Run) else NameTakenError
            raise taken(row["name"]) from error

    def _keep(self, row: dict[str, Any]) -> None:
        """Writes the columns that have changed: an index is left alone where nothing of it has."""
        before = self._kept.get(row["id"])
        self._kept[row["id"]] = row
        if before is None:
            self._connection.execute(_BEGIN, row)
            return
        changed = ", ".join(f"{name} = :{name}" for name in COLUMNS if row[name] != before[name])
        self._connection.execute(f"UPDATE states SET {changed} WHERE id = :id", row)  # noqa: S608

    def renew(self, held: Sequence[tuple[str, int, Lease]]) -> None:
        """Writes leases anew: each where the box or run still has the epoch under which it was taken."""
        rows = [{"id": id_, "epoch": epoch, "lease": lease_text(lease)} for id_, epoch, lease in held]
        self._connection.executemany(_RENEW, rows)


T = TypeVar("T")

MARKS = {"real": 0x6770752D, "sandbox": 0x67707573}
"""The mark of a file with boxes of each kind: SQLite's ``application_id``."""
_DAMAGED = "it is damaged: restore a copy of it, or move it away and run `gpucloud recover`"


class Database:
    """Reads and writes one file. Safe to use from several threads and processes.

    Args:
        path: the file.
        busy_s: how long to wait for another writer.
    """

    def __init__(self, path: Path, busy_s: float = BUSY_S) -> None:
        self._file = _File(path)
        self._busy_s = busy_s
        self._lock = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        self.damaged: dict[str, str] = {}
        weakref.finalize(self, _close_all, self._idle)

    @classmethod
    def open(cls, path: Path, *, kind: str | None = None, busy_s: float = BUSY_S) -> Database:
        """Opens the file, making it where there is none.

        Args:
            path: the file; its folder exists.
            kind: of its boxes, by which the file is marked: ``real`` or ``sandbox``; ``None`` for any.
            busy_s: how long to wait for another writer.

        Raises:
            JournalError: the file is damaged, read-only, or locked for too long.
            UsageError: it is of another version, or is marked as the other kind.
        """
        database = cls(path, busy_s)
        with _explained(path):
            database._file.hold()
            with database._connection() as connection:
                use_wal(connection, busy_s)
                _refuse_version(path, version_of(connection))
                migrate(connection, STEPS)
                if kind is not None:
                    _mark(connection, path, kind)
        return database

    @contextmanager
    def reading(self) -> Generator[Reader]:
        """What is read in the body is of one moment.

        Raises:
            JournalError: the file cannot be read.
        """
        with _explained(None), self._connection() as connection, _snapshot(connection):
            yield Reader(asking(connection), self.damaged)

    def change(self, body: Callable[[Writer], T]) -> T:
        """What is written in the body is kept whole, or not at all; others write before it or after it.

        Raises:
            JournalError: the file cannot be written, or was replaced.
        """
        with self._lock, _explained(None), self._connection() as connection, transaction(connection):
            done = body(Writer(connection, self.damaged))
            self._file.check()
        return done

    def check(self) -> None:
        """Looks whether the file is still the one that was opened.

        Raises:
            JournalError: it was deleted, moved or replaced.
        """
        self._file.check()

    def time(self, otherwise: Callable[[], datetime]) -> datetime:
        """The time by the clock of the file system; by another clock where the file cannot be touched."""
        return self._file.time(otherwise)

    @property
    def identity(self) -> None:
        """A file knows no logins."""

    @property
    def only_reads(self) -> bool:
        """A file that cannot be written is refused when it is opened."""
        return False

    def aliases(self, owner: str) -> tuple[str, ...]:  # noqa: ARG002
        """A file knows no logins."""
        return ()

    def identify(self, owner: str) -> None:
        """A file knows no logins."""

    def key_of(self, login: str) -> None:
        """A file knows no logins."""

    def publish_key(self, key: str) -> None:
        """A file knows no logins."""

    def close(self) -> None:
        """Closes the file; a later call opens it again."""
        _close_all(self._idle)

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


def _refuse_version(path: Path, found: int) -> None:
    """Refuses a file that another gpucloud has made. No version was released yet that could be migrated.

    Raises:
        UsageError: it is of another version.
    """
    if found not in {0, VERSION}:
        raise UsageError(
            f"the journal {path} was made by another gpucloud (schema {found}, this one has {VERSION})",
            hint="use that gpucloud; or move the file away, and take in what runs by its tags:"
            " gpucloud recover",
        )


def _mark(connection: sqlite3.Connection, path: Path, kind: str) -> None:
    """Marks a file that has no mark yet.

    Raises:
        UsageError: it is marked as the other kind.
    """
    mark = MARKS[kind]
    if _mark_of(connection) == 0:
        with transaction(connection):
            if _mark_of(connection) == 0:  # nobody else was faster
                connection.execute(f"PRAGMA application_id = {mark}")
    if _mark_of(connection) != mark:
        refuse_kind(f"the journal {path}", kind, hint="use a file of its own for each kind")


def _mark_of(connection: sqlite3.Connection) -> int:
    [[mark]] = connection.execute("PRAGMA application_id")
    return int(mark)


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
    """Turns errors of SQLite and the file system into errors that say what to do."""
    where = f" {path}" if path else ""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise JournalError(f"the journal{where} cannot be used: {said}", hint=_mend(said)) from error


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
