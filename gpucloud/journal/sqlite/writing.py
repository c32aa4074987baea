"""Appends events to a journal's tables, each with its effect on the others; nothing else is ever written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from datetime import datetime

from gpucloud.journal.errors import NameTakenError
from gpucloud.journal.events import VERSION, FirstOfBox
from gpucloud.journal.facts import plain
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.records import Appended, NewEvent
from gpucloud.journal.sqlite.projections import project
from gpucloud.journal.sqlite.reading import Reader
from gpucloud.journal.sqlite.schema import PROJECTIONS, replay


class Writer(Reader):
    """Writes by a connection that is in a transaction, and reads what it has written."""

    def append(self, box: str, number: int, new: NewEvent, at: datetime) -> Appended:
        """Appends one event and has it take effect.

        Args:
            box: whose event it is.
            number: one more than that of the box's last event, as far as the writer knows.
            new: the event, with the id of its writer and the epoch under which that holds the box.
            at: when it was.

        Raises:
            NameTakenError: it would give a box a name that a living one has.
            ValueError: it cannot follow what is known of its box.
        """
        if self._rows("SELECT 1 FROM events WHERE id = :id", {"id": new.id}):
            return Appended.WAS_WRITTEN
        if self.position(box) != (new.epoch, number - 1):
            return Appended.STALE
        if number == 1 and not isinstance(new.event, FirstOfBox):
            raise ValueError(f"there is no box {box}, which {new.event.type!r} could follow")
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
            if "boxes.name" not in str(error):
                raise
            raise NameTakenError(getattr(new.event, "name", "")) from error
        return Appended.WRITTEN

    def renew(self, held: Iterable[tuple[str, int, Lease]]) -> None:
        """Writes leases anew: each of a box, where it still has the epoch under which the lease was taken."""
        self._connection.executemany(
            "UPDATE boxes SET lease = :lease WHERE id = :box AND epoch = :epoch AND lease IS NOT NULL",
            [{"box": box, "epoch": epoch, "lease": json.dumps(plain(lease))} for box, epoch, lease in held],
        )

    def rebuild(self) -> None:
        """Empties the tables and replays every event into them."""
        for table in PROJECTIONS:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608  # nosec B608
        replay(self._connection)
