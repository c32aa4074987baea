"""Appends events to a journal's file, each with the state that it leads to; nothing else is ever written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from gpucloud.journal import backend
from gpucloud.journal.errors import NameTakenError, RunLivesError
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.reading import Ask
from gpucloud.journal.records import Run, StoredEvent
from gpucloud.journal.rows import COLUMNS, lease_text, row_of, row_of_event
from gpucloud.journal.state import State

_APPEND = """INSERT INTO events (id, at, box, number, type, version, data)
VALUES (:id, :at, :box, :number, :type, :version, :data)"""
_KEEP = f"""INSERT INTO states ({", ".join(COLUMNS)}) VALUES ({", ".join(f":{each}" for each in COLUMNS)})
ON CONFLICT (id) DO UPDATE SET {", ".join(f"{each} = excluded.{each}" for each in COLUMNS if each != "id")}"""  # noqa: S608
_RENEW = "UPDATE states SET lease = :lease WHERE id = :id AND epoch = :epoch AND lease IS NOT NULL"


def asking(connection: sqlite3.Connection) -> Ask:
    """Asks a connection, which is in a transaction: its queries are of one moment."""
    return lambda queries: [connection.execute(query, values).fetchall() for query, values in queries]


class Writer(backend.Writer):
    """Writes by a connection that is in a transaction, and reads what it has written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(asking(connection))
        self._connection = connection

    def _write(self, stored: StoredEvent, after: State) -> None:
        self._connection.execute(_APPEND, row_of_event(stored))
        row = row_of(after)
        try:
            self._connection.execute(_KEEP, row)
        except sqlite3.IntegrityError as error:
            if "states.name" not in str(error):
                raise
            taken = RunLivesError if isinstance(after, Run) else NameTakenError
            raise taken(row["name"]) from error

    def renew(self, held: Sequence[tuple[str, int, Lease]]) -> None:
        """Writes leases anew: each where the box or run still has the epoch under which it was taken."""
        rows = [{"id": id_, "epoch": epoch, "lease": lease_text(lease)} for id_, epoch, lease in held]
        self._connection.executemany(_RENEW, rows)
