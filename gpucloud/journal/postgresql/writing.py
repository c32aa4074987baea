"""One change of a journal: folded in this process, and sent as a whole."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpucloud.journal import backend
from gpucloud.journal.events import OF_SETTINGS as SETTING_EVENTS
from gpucloud.journal.events import FirstOfBox, RunBegun
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.postgresql.folding import Asker, Folded
from gpucloud.journal.postgresql.schema import OWNED
from gpucloud.journal.postgresql.server import READ, WRITE
from gpucloud.journal.reading import OF_SETTINGS, Query, Row, position_of
from gpucloud.journal.records import Appended, Holding, NewEvent, StoredEvent
from gpucloud.journal.rows import lease_text, row_of, row_of_event
from gpucloud.journal.state import State

EVERYBODY = ""
"""The scope of what is read of all owners."""


class Writer(backend.Writer):
    """Reads and appends for one change, which is then to be sent.

    What it reads of many is of what was there before the change. A new box or run of the same owner makes
    that out of date: the change is then made again.

    Args:
        ask: asks the server.
        folded: what this process knows of boxes and runs; it may be out of date.
        trusts: whether what it knows is taken as it is, to save a round trip.
    """

    owned = OWNED

    def __init__(self, ask: Asker, folded: Folded, damaged: dict[str, str], *, trusts: bool) -> None:
        super().__init__(self._asked, damaged)
        self._server = ask
        self._folded = folded
        self._trusts = trusts
        self._before: dict[str, State | None] = {}
        self._owners: dict[str, int | None] = {}
        self._begins: set[str] = set()
        self._events: list[dict[str, Any]] = []
        self.after: dict[str, State] = {}
        """What this change has made of boxes and runs."""
        self.is_sure = True
        """Whether nothing was decided by what may be out of date."""

    # --- reading

    def _read(self, ids: Collection[str], *, fresh: bool) -> dict[str, State | None]:
        kept = self._folded.kept(ids) if self._trusts and not fresh else {}
        self.is_sure = self.is_sure and not kept
        found = {**kept, **self._folded.read(self._server, [each for each in ids if each not in kept])}
        self._before |= found
        return found

    def _asked(self, queries: Sequence[Query]) -> Sequence[Sequence[Row]]:
        """Asks the server, and remembers of which owners the answers tell."""
        owners = {values["owner"] or EVERYBODY for _, values in queries if "owner" in values}
        counts = ("SELECT owner, begun FROM owners WHERE owner = ANY (:owners)", {"owners": [*owners]})
        [rows, *answers] = self._server([counts, *queries], READ)
        begun = {row["owner"]: row["begun"] for row in rows}
        for owner in owners:
            if self._owners.get(owner) is None:  # what it has begun itself was not read
                self._owners[owner] = begun.get(owner, 0)
        return answers

    def billed_since(self, since: datetime | None) -> list[Holding]:
        """As of before the change. Transactions that count at once conflict: the later ones are stale."""
        self._begins.add(EVERYBODY)
        return super().billed_since(since)

    # --- writing

    def append(self, id: str, number: int, new: NewEvent, at: datetime) -> Appended:  # noqa: A002
        """As :meth:`gpucloud.journal.backend.Writer.append`; the server tells whether a new id is new."""
        if self._trusts and isinstance(new.event, FirstOfBox | RunBegun) and id not in self._changed:
            self.is_sure = False
            self._changed[id] = self._before[id] = None
        return super().append(id, number, new, at)

    def _write(self, stored: StoredEvent, after: State) -> None:
        self._events.append(row_of_event(stored))
        self.after[stored.box] = after
        if isinstance(stored.event, FirstOfBox | RunBegun):
            self._begin(stored.event.owner, EVERYBODY)
        elif isinstance(stored.event, SETTING_EVENTS):
            self._begin(OF_SETTINGS)

    def _begin(self, *owners: str) -> None:
        """Makes what others have read of these owners out of date."""
        for owner in owners:
            self._owners.setdefault(owner, None)
            self._begins.add(owner)

    def renew(self, held: Sequence[tuple[str, int, Lease]]) -> None:
        """Writes leases anew: each where the box or run still has the epoch under which it was taken."""
        leases = [{"id": id_, "epoch": epoch, "lease": lease_text(lease)} for id_, epoch, lease in held]
        self._server([("SELECT renew(:leases)", {"leases": json.dumps(leases)})], WRITE)

    # --- what is to be sent

    def document(self) -> Mapping[str, Any] | None:
        """What is to be sent, as ``append`` of the database takes it; ``None`` where that is nothing."""
        if not self._events:
            return None
        return {
            "positions": {id_: position_of(state) for id_, state in self._before.items()},
            "owners": self._owners,
            "begins": sorted(self._begins),
            "events": self._events,
            "states": [row_of(state) for _, state in sorted(self.after.items())],
        }
