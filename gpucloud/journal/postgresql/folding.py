"""What this process knows of single boxes and runs: folded from their events, of which it reads the new ones.

A stored state is what another login says; an event is what it did. Whoever spends or deletes reads here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from gpucloud.journal.errors import JournalError, OlderError
from gpucloud.journal.postgresql.server import READ
from gpucloud.journal.reading import Query, Row, event_of, position_of
from gpucloud.journal.records import Holding, Run
from gpucloud.journal.rows import read_lease
from gpucloud.journal.state import State, fold

Asker = Callable[[Sequence[Query], str], Sequence[Sequence[Row]]]
"""Answers queries in one transaction of a mode."""

MOST_KEPT = 1000
"""How many boxes and runs are remembered for the next change."""
_POSITIONS = "SELECT id, epoch, number, lease FROM states WHERE id = ANY (:ids)"
_NEW_EVENTS = """SELECT events.* FROM events
JOIN jsonb_each_text(:known::jsonb) AS known ON known.key = events.box
WHERE events.number > known.value::integer ORDER BY events.box, events.number"""


class Folded:
    """Remembers the states that this process has written or read.

    Args:
        where: the journal, for messages.
    """

    def __init__(self, where: object) -> None:
        self._where = where
        self._states: dict[str, State] = {}

    def kept(self, ids: Collection[str]) -> dict[str, State | None]:
        """What is remembered of these; it may be out of date."""
        return {each: self._states[each] for each in ids if each in self._states}

    def keep(self, states: Mapping[str, State]) -> None:
        """Remembers states that the server has."""
        if len(self._states) + len(states) > MOST_KEPT:
            self._states.clear()
        self._states.update(states)

    def read(self, ask: Asker, ids: Collection[str]) -> dict[str, State | None]:
        """Boxes and runs as they are now, in one round trip; ``None`` for what is not there.

        Raises:
            JournalError: what the server has of one is not what its events say.
            OlderError: the server has lost what this process wrote.
        """
        if not ids:
            return {}
        known = self.kept(ids)
        numbers = {each: position_of(known.get(each))[1] for each in ids}
        queries: Sequence[Query] = (
            (_POSITIONS, {"ids": sorted(ids)}),
            (_NEW_EVENTS, {"known": json.dumps(numbers)}),
        )
        places, rows = ask(queries, READ)
        place_of = {row["id"]: row for row in places}
        news: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            news[row["box"]].append(row)
        found = {each: self._folded(each, known.get(each), place_of.get(each), news[each]) for each in ids}
        self.keep({id_: state for id_, state in found.items() if state is not None})
        return found

    def _folded(
        self,
        id: str,  # noqa: A002  (the field's own name)
        known: State | None,
        place: Row | None,
        news: Sequence[Row],
    ) -> State | None:
        position = (0, 0) if place is None else (place["epoch"], place["number"])
        if position < position_of(known):
            raise OlderError(id, self._where)
        try:
            state = fold(map(event_of, news), known)
        except ValueError as error:
            raise self._damaged(id, str(error)) from error
        if position_of(state) != position:
            raise self._damaged(id, "its state is not what its events say")
        lease = read_lease(place["lease"]) if place else None  # it is renewed without an event
        return replace(state, lease=lease) if isinstance(state, Holding | Run) else state

    def _damaged(self, id: str, why: str) -> JournalError:  # noqa: A002
        return JournalError(f"the journal {self._where}: {id}: {why}", hint="gpucloud journal verify")
