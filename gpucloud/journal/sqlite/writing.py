"""Appends events to a journal's tables, each with its effect on the others; nothing else is ever written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime

from gpucloud.journal.errors import NameTakenError, RunLivesError
from gpucloud.journal.events import VERSION, BudgetSet, FirstOfBox, PolicyApplied, RunBegun
from gpucloud.journal.facts import plain
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.records import Appended, NewEvent
from gpucloud.journal.sqlite.projections import HELD, project
from gpucloud.journal.sqlite.reading import Ask, Reader
from gpucloud.journal.sqlite.schema import PROJECTIONS, replay


def asking(connection: sqlite3.Connection) -> Ask:
    """Asks a connection, which is in a transaction: its queries are of one moment."""
    return lambda queries: [connection.execute(query, values).fetchall() for query, values in queries]


class Writer(Reader):
    """Writes by a connection that is in a transaction, and reads what it has written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(asking(connection))
        self._connection = connection

    def load(self, ids: Collection[str]) -> None:
        """Is told what is about to be changed; here nothing need be read ahead."""

    def append(self, box: str, number: int, new: NewEvent, at: datetime) -> Appended:
        """Appends one event and has it take effect.

        Args:
            box: the id of the box or run whose event it is.
            number: one more than that of the box's last event, as far as the writer knows.
            new: the event, with the id of its writer and the epoch under which that holds the box.
            at: when it was.

        Raises:
            NameTakenError: it would give a box a name that a living one has.
            RunLivesError: it would give a run an id that one which is not over has.
            ValueError: it cannot follow what is known of its box.
        """
        if self._rows("SELECT 1 FROM events WHERE id = :id", {"id": new.id}):
            return Appended.WAS_WRITTEN
        if self.position(box) != (new.epoch, number - 1):
            return Appended.STALE
        if number == 1 and not isinstance(new.event, FirstOfBox | RunBegun | BudgetSet | PolicyApplied):
            raise ValueError(f"there is no box or run {box}, which {new.event.type!r} could follow")
        time = at.isoformat()
        self._connection.execute(
            "INSERT INTO events (id, at, box, number, type, version, data)"
            " VALUES (:id, :at, :box, :number, :type, :version, :data)",
            {
                "id": new.id,
                "at": time,
                "box": box,
                "number": number,
                "type": new.event.type,
                "version": VERSION,
                "data": new.event.payload(),
            },
        )
        try:
            project(self._connection, box, number, time, new.event)
        except sqlite3.IntegrityError as error:
            if "boxes.name" in str(error):
                raise NameTakenError(getattr(new.event, "name", "")) from error
            if "runs.run_id" in str(error):
                raise RunLivesError(getattr(new.event, "run_id", "")) from error
            raise
        return Appended.WRITTEN

    def renew(self, held: Sequence[tuple[str, int, Lease]]) -> None:
        """Writes leases anew: each where the box or run still has the epoch under which it was taken."""
        rows = [{"id": id_, "epoch": epoch, "lease": json.dumps(plain(lease))} for id_, epoch, lease in held]
        for table in HELD:
            self._connection.executemany(
                f"UPDATE {table} SET lease = :lease"  # noqa: S608
                " WHERE id = :id AND epoch = :epoch AND lease IS NOT NULL",
                rows,
            )

    def rebuild(self) -> None:
        """Empties the tables and replays every event into them."""
        for table in PROJECTIONS:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
        replay(self._connection)
