"""One change of a journal: made on copies of what it is about, and sent as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpucloud.journal.events import OF_SETTINGS, FirstOfBox, RunBegun
from gpucloud.journal.facts import plain
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.postgresql.copies import (
    EVENT,
    Copies,
    Rows,
    nothing_of,
    position_of,
    queries_for,
    rows_by_id,
)
from gpucloud.journal.postgresql.schema import HELD, NUMBERED, OWNED
from gpucloud.journal.postgresql.server import READ, WRITE
from gpucloud.journal.records import Appended, Box, NewEvent, Run
from gpucloud.journal.sqlite.reading import OF_SETTINGS as SETTINGS
from gpucloud.journal.sqlite.reading import Query, Reader, Row

Asker = Callable[[Sequence[Query], str], Sequence[Sequence[Row]]]
"""Answers queries in one transaction of a mode."""

EVERYBODY = ""
"""The scope of what is read of all owners."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be sent.

    Attributes:
        document: positions, owners, events and rows, as ``append`` of the database takes them.
        after: the rows of each box or run after it.
    """

    document: Mapping[str, Any]
    after: Mapping[str, Rows]


class Writer(Reader):
    """Reads and appends for one change; the boxes that it reads are copies.

    Other reads are of what was there before the change. A new box or run of the same owner makes them out of
    date: the change is then made again.

    Args:
        ask: asks the server.
        kept: copies from earlier changes; they may be out of date.
        refuse_older: is told the position of each box or run that the server has.
    """

    owned = OWNED

    def __init__(
        self, ask: Asker, kept: Mapping[str, Rows], refuse_older: Callable[[str, tuple[int, int]], None]
    ) -> None:
        super().__init__(self._read)
        self._server = ask
        self._kept: Mapping[str, Rows] = kept
        self._refuse_older = refuse_older
        self._copies = Copies()
        self._owners: dict[str, int | None] = {}
        self._begins: set[str] = set()
        self.is_sure = True
        """Whether nothing was decided by a kept copy."""

    # --- reading

    def load(self, ids: Collection[str]) -> None:
        """Takes copies of boxes and runs, in one round trip."""
        missing = {each for each in ids if each not in self._copies.before}
        for each in missing & self._kept.keys():
            self.is_sure = False
            self._copies.put(each, self._kept[each])
        missing -= self._kept.keys()
        if missing:
            for id_, rows in rows_by_id(missing, self._server(queries_for(missing), READ)).items():
                self._refuse_older(id_, position_of(rows))
                self._copies.put(id_, rows)

    def box(self, id: str) -> Box:  # noqa: A002
        """The box with this id, as this change has made it. Raises ``KeyError``."""
        self.load([id])
        return self._copies.writer.box(id)

    def run(self, id: str) -> Run:  # noqa: A002
        """The run with this internal id, as this change has made it. Raises ``KeyError``."""
        self.load([id])
        return self._copies.writer.run(id)

    def position(self, box: str) -> tuple[int, int]:
        """The epoch of a box or run and the number of its last event; zeros for one that is not there."""
        self.load([box])
        return self._copies.writer.position(box)

    def _read(self, queries: Sequence[Query]) -> Sequence[Sequence[Row]]:
        """Asks the server, and remembers of which owners the answers tell."""
        owners = {values["owner"] or EVERYBODY for _, values in queries if "owner" in values}
        counts = ("SELECT owner, begun FROM owners WHERE owner = ANY (:owners)", {"owners": [*owners]})
        [rows, *answers] = self._server([counts, *queries], READ)
        begun = {row["owner"]: row["begun"] for row in rows}
        for owner in owners:
            if self._owners.get(owner) is None:  # what it has begun itself was not read
                self._owners[owner] = begun.get(owner, 0)
        return answers

    def billed_since(self, since: datetime | None) -> list[Box]:
        """As of before the change. Transactions that count at once conflict: the later ones are stale."""
        self._begins.add(EVERYBODY)
        return super().billed_since(since)

    # --- writing

    def append(self, box: str, number: int, new: NewEvent, at: datetime) -> Appended:
        """Appends one event to the copy of its box, as :meth:`gpucloud.journal.store.Journal.append`."""
        begins = isinstance(new.event, FirstOfBox | RunBegun)
        if begins and box not in self._copies.before and box not in self._kept:
            self._copies.put(box, nothing_of(box))  # it is not there, or the change will be refused
        self.load([box])
        appended = self._copies.writer.append(box, number, new, at)
        if appended is Appended.STALE and self._is_written(new):
            return Appended.WAS_WRITTEN
        if appended is Appended.WRITTEN:
            if isinstance(new.event, FirstOfBox | RunBegun):
                self._begin(new.event.owner, EVERYBODY)
            elif isinstance(new.event, OF_SETTINGS):
                self._begin(SETTINGS)
        return appended

    def _begin(self, *owners: str) -> None:
        """Makes what others have read of these owners out of date."""
        for owner in owners:
            self._owners.setdefault(owner, None)
            self._begins.add(owner)

    def _is_written(self, new: NewEvent) -> bool:
        [rows] = self._server([("SELECT 1 AS one FROM events WHERE id = :id", {"id": new.id})], READ)
        return bool(rows)

    def renew(self, held: Sequence[tuple[str, int, Lease]]) -> None:
        """Writes leases anew: each where the box or run still has the epoch under which it was taken."""
        leases = [
            {"id": id_, "epoch": epoch, "lease": json.dumps(plain(lease))} for id_, epoch, lease in held
        ]
        queries = [
            (
                f"UPDATE {table} SET lease = new.lease"  # noqa: S608
                " FROM jsonb_to_recordset(:leases) AS new(id text, epoch integer, lease text)"
                f" WHERE {table}.id = new.id AND {table}.epoch = new.epoch AND {table}.lease IS NOT NULL",
                {"leases": json.dumps(leases)},
            )
            for table in HELD
        ]
        self._server(queries, WRITE)

    def rebuild(self) -> None:
        """Has every event take effect again, on empty tables."""
        ids = " UNION ALL ".join(f"SELECT id FROM {table}" for table in NUMBERED)  # noqa: S608
        columns = ", ".join(EVENT)
        [held, events] = self._server(
            [(ids, {}), (f"SELECT {columns} FROM events ORDER BY seq", {})],  # noqa: S608
            READ,
        )
        self._kept = {}
        self.load({row["id"] for row in held})
        self._copies.replay(events)

    # --- what is to be sent

    def change(self) -> Change | None:
        """What this change has made; ``None`` where that is nothing."""
        after = self._copies.after()
        events, rows = self._copies.events(), self._copies.changed(after)
        if not events and not any(rows.values()):
            return None
        document = {
            "positions": self._copies.positions(),
            "owners": self._owners,
            "begins": sorted(self._begins),
            "events": events,
            **rows,
        }
        return Change(document, after)

    def close(self) -> None:
        """Drops the copies."""
        self._copies.close()
