"""Appends events to a journal's file, each with the state that it leads to; nothing else is ever written."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from gpucloud.journal import backend
from gpucloud.journal.errors import NameTakenError, RunLivesError
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.reading import Ask, values_of
from gpucloud.journal.records import Run, StoredEvent
from gpucloud.journal.rows import COLUMNS, lease_text, row_of, row_of_event, state_of
from gpucloud.journal.state import State

_APPEND = """INSERT INTO events (id, at, box, number, type, version, data)
VALUES (:id, :at, :box, :number, :type, :version, :data)"""
_BEGIN = f"INSERT INTO states ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{each}' for each in COLUMNS)})"  # noqa: S608
_RENEW = "UPDATE states SET lease = :lease WHERE id = :id AND epoch = :epoch AND lease IS NOT NULL"


def asking(connection: sqlite3.Connection) -> Ask:
    """Asks a connection, which is in a transaction: its queries are of one moment."""
    return lambda queries: [connection.execute(query, values).fetchall() for query, values in queries]


class Writer(backend.Writer):
    """Writes by a connection that is in a transaction, and reads what it has written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(asking(connection))
        self._connection = connection
        self._kept: dict[str, dict[str, Any]] = {}
        """The rows of the states that this change has read or written."""

    def _read(self, ids: Collection[str], *, fresh: bool) -> dict[str, State | None]:  # noqa: ARG002
        found: dict[str, State | None] = dict.fromkeys(ids)
        for id_ in ids:
            for row in self._rows("SELECT * FROM states WHERE id = :id", {"id": id_}):
                self._kept[id_] = values_of(row)
                found[id_] = state_of(self._kept[id_])
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
