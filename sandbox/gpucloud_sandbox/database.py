"""The sandbox's persistent state: one SQLite file with the emulated resources, the settings and the ledger.

A call's changes are one transaction that is in the file before the call is answered, so that killing the
process loses nothing that a client was told. A crash of the machine may: the boxes end with it, too.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpucloud_pricing.sqlite_file import connect, run_script, transaction, use_wal

Document = dict[str, Any]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS things (
    cloud TEXT, region TEXT, kind TEXT, id TEXT, document TEXT NOT NULL,
    PRIMARY KEY (cloud, region, kind, id));
CREATE TABLE IF NOT EXISTS ledger (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, event TEXT NOT NULL, cloud TEXT NOT NULL,
    id TEXT NOT NULL, entry TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS ledger_events ON ledger (event, number);
"""


class Database:
    """The sandbox's file, and the one lock under which the clouds' state changes."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._readers: list[Callable[[], None]] = []
        self._connection = connect(path)
        use_wal(self._connection)
        self._connection.execute("PRAGMA synchronous = NORMAL")  # no call waits for the disk
        with transaction(self._connection):
            run_script(self._connection, _SCHEMA)
        path.chmod(0o600)

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All changes inside are committed together, or none. One thread at a time; transactions nest."""
        with self._lock:
            if self._depth == 0:
                self._connection.execute("BEGIN")
            self._depth += 1
            try:
                yield self._connection
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._connection.execute("ROLLBACK")
                    self.read_again()
                raise
            self._depth -= 1
            if self._depth == 0:
                self._connection.execute("COMMIT")

    def on_read_again(self, read: Callable[[], None]) -> None:
        """Registers a reader of the file, which reads it again when changes are rolled back."""
        self._readers.append(read)

    def read_again(self) -> None:
        """Reloads memory from the file."""
        for read in self._readers:
            read()

    def setting(self, name: str) -> Any:
        """A kept setting, as JSON; ``None`` where there is none."""
        with self.transaction() as connection:
            row = connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep_setting(self, name: str, value: Any) -> None:
        """Keeps a setting."""
        with self.transaction() as connection:
            connection.execute("REPLACE INTO settings VALUES (?, ?)", (name, json.dumps(value)))

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()


class Shelf:
    """The resources of one cloud, as JSON documents in the form of its own answers, by region and kind.

    Reading is from memory. A document that was changed must be :meth:`put` again.
    """

    def __init__(self, database: Database, cloud: str) -> None:
        self._database = database
        self._cloud = cloud
        self._resources: dict[tuple[str, str], dict[str, Document]] = {}
        self._load()
        database.on_read_again(self._load)

    def _load(self) -> None:
        self._resources.clear()
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT region, kind, id, document FROM things WHERE cloud = ? ORDER BY rowid", (self._cloud,)
            )
            for region, kind, id_, document in rows:
                self._resources.setdefault((region, kind), {})[id_] = json.loads(document)

    def all(self, region: str, kind: str) -> Mapping[str, Document]:
        """Everything of a kind in a region, by id, oldest first."""
        return self._resources.get((region, kind), {})

    def everywhere(self, kind: str) -> Iterator[tuple[str, Document]]:
        """Everything of a kind, with its region."""
        for (region, each), resources in list(self._resources.items()):
            if each == kind:
                for document in list(resources.values()):
                    yield region, document

    def put(self, region: str, kind: str, id_: str, document: Document) -> Document:
        """Stores a new or changed resource."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO things VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (cloud, region, kind, id) DO UPDATE SET document = excluded.document",
                (self._cloud, region, kind, id_, json.dumps(document)),
            )
            self._resources.setdefault((region, kind), {})[id_] = document
        return document

    def drop(self, region: str, kind: str, id_: str) -> None:
        """Removes a resource."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM things WHERE cloud = ? AND region = ? AND kind = ? AND id = ?",
                (self._cloud, region, kind, id_),
            )
            self._resources.get((region, kind), {}).pop(id_, None)

    def clear(self) -> None:
        """Removes all resources of this cloud."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM things WHERE cloud = ?", (self._cloud,))
            self._resources.clear()
