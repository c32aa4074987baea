"""Reads states and events from the tables of a journal, of whatever database.

The queries are in the SQL that SQLite and PostgreSQL share; a value is written ``:name``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, Protocol

from gpucloud.journal.budgets import Budget
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import read
from gpucloud.journal.kinds import HOLDINGS, LIVING
from gpucloud.journal.policy import Policy
from gpucloud.journal.records import Box, H, Holding, Intent, ResourceRow, Run, Settings, SpotRun, StoredEvent
from gpucloud.journal.rows import is_row_of, state_of, text_of
from gpucloud.journal.state import State, fold

_IDS_AT_ONCE = 500
_PRESENT, _UNRESOLVED = "present > 0", "unresolved > 0"
"""Conditions as the indexes have them."""
OF_SETTINGS = "budgets:"
"""The scope of what is read of budgets and the policy, as an owner; no login and no owner id has a colon."""


class Row(Protocol):
    """A row by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any: ...
    def keys(self) -> Iterable[str]:
        """The names."""
        ...


Query = tuple[str, Mapping[str, Any]]
"""A query with its values."""

Ask = Callable[[Sequence[Query]], Sequence[Sequence[Row]]]
"""Answers queries as of one moment, in their order."""


class Reader:
    """Reads by asking; ``ask`` knows the database, and the snapshot or transaction is its maker's."""

    owned: ClassVar[str] = "owner = :owner"
    """The condition of what is an owner's."""

    def __init__(self, ask: Ask, damaged: dict[str, str]) -> None:
        self._ask = ask
        self._damaged = damaged
        """Why the stored states of these ids make no sense: of all that was read of the journal."""

    # --- one box, run or budget

    def state(self, id: str) -> State | None:  # noqa: A002  (the field's own name)
        """What the events of an id fold to; ``None`` for one that is not there."""
        found = self._states("id = :id", {"id": id})
        return found[0] if found else None

    def holding(self, of: type[H], id: str) -> H:  # noqa: A002
        """The holding of this type with this id. Raises ``KeyError``."""
        found = self.state(id)
        if not isinstance(found, of):
            raise KeyError(id)
        return found

    def run(self, id: str) -> Run:  # noqa: A002
        """The run with this internal id. Raises ``KeyError``."""
        found = self.state(id)
        if not isinstance(found, Run):
            raise KeyError(id)
        return found

    def position(self, id: str) -> tuple[int, int]:  # noqa: A002
        """The epoch of a box or run and the number of its last event; zeros for one that is not there."""
        return position_of(self.state(id))

    # --- holdings: boxes, volumes, snapshots

    def holdings(self, of: type[H], owner: str | None, *, over: bool) -> list[H]:
        """An owner's holdings of a type, or everybody's, oldest first; ``over`` adds what has ended."""
        conditions = ["1 = 1" if owner is None else self.owned, *([] if over else [LIVING])]
        return self._holdings(of, " AND ".join(conditions), {"owner": owner})

    def unsettled(self, owner: str) -> list[Holding]:
        """An owner's holdings that live, or have something that is or may be there; oldest first."""
        parts = [f"SELECT id FROM states WHERE {each}" for each in (LIVING, _PRESENT, _UNRESOLVED)]  # noqa: S608
        condition = f"{self.owned} AND id IN ({' UNION '.join(parts)})"
        return self._holdings(Holding, condition, {"owner": owner})

    def known(self, of: type[H], ids: Collection[str]) -> list[H]:
        """The holdings of a type, of these ids, that are there, in whatever state."""
        return [each for condition, values in _among(ids) for each in self._holdings(of, condition, values)]

    def named(self, owner: str, name: str) -> list[Holding]:
        """An owner's holdings with this name or id, in whatever state, oldest first."""
        values = {"owner": owner, "name": name}
        found = [
            each
            for column in ("name", "id")
            for each in self._holdings(Holding, f"{self.owned} AND {column} = :name", values)
        ]
        return sorted({each.id: each for each in found}.values(), key=lambda each: each.id)

    def living_names(self, owner: str) -> set[str]:
        """The names that an owner's living holdings have."""
        query = f"SELECT name FROM states WHERE {HOLDINGS} AND {LIVING} AND {self.owned}"  # noqa: S608
        return {row["name"] for row in self._rows(query, {"owner": owner})}

    def living_of_run(self, owner: str, run_id: str | None) -> str | None:
        """The name of a living box that belongs to a run; ``None`` where there is none."""
        condition = f"{HOLDINGS} AND {LIVING} AND {self.owned} AND run_id = :run_id"
        query = f"SELECT name FROM states WHERE {condition}"  # noqa: S608
        names = [row["name"] for row in self._rows(query, {"owner": owner, "run_id": run_id})]
        return names[0] if names else None

    def billed_since(self, since: datetime | None) -> list[Holding]:
        """The holdings of all owners that live, or ended since then, or of all times; oldest first."""
        lives = "1 = 1" if since is None else f"({LIVING} OR coalesce(ended_at, created_at) >= :since)"
        return self._holdings(Holding, lives, {"owner": None, "since": text_of(since)})

    # --- runs

    def runs(self, owner: str, *, over: bool, since: datetime | None) -> list[Run]:
        """An owner's runs, oldest first; ``over`` adds those that are over, or that ended ``since`` then."""
        lives = f"({LIVING} OR ended_at >= :since)" if over and since else "1 = 1" if over else LIVING
        return self._runs(f"{self.owned} AND {lives}", {"owner": owner, "since": text_of(since)})

    def runs_named(self, owner: str, run_id: str) -> list[Run]:
        """An owner's runs with this id, in whatever state, oldest first."""
        return self._runs(f"{self.owned} AND name = :name", {"owner": owner, "name": run_id})

    # --- budgets and the policy

    def settings(self) -> Settings:
        """The budgets of all owners, by name, and the policy."""
        condition = f"kind IN ('budget', 'policy') AND {LIVING}"
        found = self._states(condition, {"owner": OF_SETTINGS})
        budgets = sorted((each for each in found if isinstance(each, Budget)), key=lambda each: each.name)
        return Settings(
            budgets=tuple(budgets),
            policy=next((each for each in found if isinstance(each, Policy)), None),
        )

    # --- what holdings have

    def intents(self, box: str | None, *, unresolved: bool) -> list[Intent]:
        """Create intents, oldest first: of one box or all, those without a known outcome or all."""
        holdings = self._one_or(box, _UNRESOLVED if unresolved else "1 = 1")
        found = [each for one in holdings for each in (one.unresolved if unresolved else one.intents)]
        return sorted(found, key=lambda each: (each.at, each.id))

    def resources(self, box: str | None, *, present: bool) -> list[ResourceRow]:
        """Resources in the order in which they were made: of one box or all, those not gone or all."""
        holdings = self._one_or(box, _PRESENT if present else "1 = 1")
        return [each for one in holdings for each in (one.present if present else one.resources)]

    def resources_of(self, ids: Collection[str]) -> list[ResourceRow]:
        """Every resource that these holdings ever had, in whatever state, in the order of their making."""
        return [each for holding in self.known(Holding, ids) for each in holding.resources]

    def spot_runs(self, owner: str) -> list[SpotRun]:
        """The intervals in which machines of an owner's boxes ran on spot, deleted boxes included.

        An interval without an end is counted until its box was last seen. Machines that their box has no
        longer (of failed attempts, or replaced) are left out: nothing tells whether they were taken back.
        """
        boxes = self._holdings(Box, f"purchase = 'spot' AND {self.owned}", {"owner": owner})
        return sorted((each for box in boxes for each in _spot_runs(box)), key=lambda each: each.start)

    # --- events

    def since(self, cursor: int, most: int) -> tuple[list[StoredEvent], int]:
        """The events after a cursor, in the order of their writing, and the cursor after the last of them."""
        query = "SELECT * FROM events WHERE seq > :cursor ORDER BY seq LIMIT :most"
        rows = self._settled(query, {"cursor": cursor, "most": most})
        return list(map(event_of, rows)), rows[-1]["seq"] if rows else cursor

    def last(self) -> int:
        """The cursor after the last event; 0 without one."""
        [row] = self._settled("SELECT coalesce(max(seq), 0) AS last FROM events", {})
        return int(row["last"])

    def history(self, id: str) -> list[StoredEvent]:  # noqa: A002
        """Every event of a box or run, oldest first."""
        query = "SELECT * FROM events WHERE box = :box ORDER BY number"
        return list(map(event_of, self._rows(query, {"box": id})))

    def everything(self) -> list[tuple[State, bool]]:
        """Every state, and whether its columns, by which it is found, are those of its document."""
        rows = map(values_of, self._rows("SELECT * FROM states ORDER BY id", {}))
        found: list[tuple[State, bool]] = []
        for row in rows:
            with suppress(JournalError):  # one that makes no sense is missing among them
                found.append((state := state_of(row), is_row_of(state, row)))
        return found

    # --- inside

    def _one_or(self, box: str | None, condition: str) -> list[Holding]:
        """One holding, if it is there; or those of a condition."""
        if box is None:
            return self._holdings(Holding, condition, {})
        found = self.state(box)
        return [found] if isinstance(found, Holding) else []

    def _holdings(self, of: type[H], condition: str, values: Mapping[str, Any]) -> list[H]:
        found = self._states(f"{_are(of)} AND {condition}", values)
        return [each for each in found if isinstance(each, of)]

    def _runs(self, condition: str, values: Mapping[str, Any]) -> list[Run]:
        found = self._states(f"kind = 'run' AND {condition}", values)
        return [each for each in found if isinstance(each, Run)]

    def _states(self, condition: str, values: Mapping[str, Any]) -> list[State]:
        rows = self._rows(f"SELECT * FROM states WHERE {condition} ORDER BY id", values)  # noqa: S608
        found = [self._state_of(values_of(row)) for row in rows]
        return [state for state in found if state is not None]

    def _state_of(self, row: Mapping[str, Any]) -> State | None:
        """The state of a row; where that makes no sense, what its events fold to.

        Where they make none either, nothing: one bad row stops nobody from ending the others.
        """
        try:
            return state_of(row)
        except JournalError as error:
            self._damaged[row["id"]] = error.message
        try:
            return fold(self.history(row["id"]))
        except (JournalError, ArithmeticError, LookupError, TypeError, ValueError):
            return None

    def _rows(self, query: str, values: Mapping[str, Any]) -> Sequence[Row]:
        [rows] = self._ask([(query, values)])
        return rows

    def _settled(self, query: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """Rows of events, of which none before the last one is still to come."""
        return self._rows(query, values)


def _are(of: type[Holding]) -> str:
    """The condition of rows of ``states`` that are holdings of a type."""
    return HOLDINGS if of is Holding else f"{HOLDINGS} AND kind = '{of.kind}'"


def position_of(state: State | None) -> tuple[int, int]:
    """The epoch of a state and the number of its last event; zeros for what is not there."""
    if state is None:
        return 0, 0
    return (state.epoch if isinstance(state, Holding | Run) else 0), state.number


def event_of(row: Row) -> StoredEvent:
    """The event of a row.

    Raises:
        JournalError: it cannot be read; the message names it.
    """
    try:
        event = read(row["type"], row["version"], json.loads(row["data"]))
        at = datetime.fromisoformat(row["at"])
    except ValueError as error:
        raise JournalError(
            f"event {row['number']} of {row['box']} in the journal cannot be read: {error}",
            hint="restore a copy of the journal; or begin a new one, and run `gpucloud recover`",
        ) from error
    return StoredEvent(id=row["id"], at=at, box=row["box"], number=row["number"], event=event)


def values_of(row: Row) -> dict[str, Any]:
    """A row as a dictionary."""
    return {name: row[name] for name in row.keys()}  # noqa: SIM118  (SQLite's rows are no mappings)


def _spot_runs(box: Box) -> Generator[SpotRun]:
    taken_back = {node.instance_id: node.taken_back for node in box.nodes}
    for usage in box.usage:
        if box.place and box.offer and usage.part == "compute" and usage.resource in taken_back:
            yield SpotRun(
                machine=usage.resource,
                cloud=box.place.cloud,
                region=box.place.region,
                instance_type=box.offer.instance_type,
                start=usage.start,
                end=usage.end or box.seen_at or usage.start,
                taken_back=taken_back[usage.resource],
            )


def _among(ids: Collection[str]) -> Generator[tuple[str, dict[str, str]]]:
    """Conditions that an id is one of these, with the values; of very many, some at a time."""
    wanted = sorted(ids)
    for first in range(0, len(wanted), _IDS_AT_ONCE):
        values = {f"v{number}": id_ for number, id_ in enumerate(wanted[first : first + _IDS_AT_ONCE])}
        yield f"id IN ({', '.join(f':{name}' for name in values)})", values
