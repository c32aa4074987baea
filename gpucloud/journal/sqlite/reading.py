"""Reads boxes, intents, resources and events from the tables of a journal, of whatever database.

The queries are in the SQL that SQLite and PostgreSQL share; a value is written ``:name``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar, Protocol

from gpucloud.journal.budgets import Budget, read_terms
from gpucloud.journal.events import read
from gpucloud.journal.facts import Node, Price, Usage, read_facts
from gpucloud.journal.kinds import POLICY_ID, Kind
from gpucloud.journal.lifecycle import BoxState, Lease
from gpucloud.journal.policy import Policy, read_rules
from gpucloud.journal.records import Box, Intent, ResourceRow, Run, Settings, SpotRun, StoredEvent
from gpucloud.journal.runs import RunState, read_run_facts
from gpucloud.journal.sqlite.names import GOING_ON, LIVING
from gpucloud.journal.sqlite.projections import NUMBERED
from gpucloud.journal.sqlite.schema import PRESENT, UNRESOLVED
from gpucloud.resources import Ref, ResourceKind, State

_IDS_AT_ONCE = 500
_SPOT_RUNS = """
SELECT usage.resource AS machine, usage.started_at AS start, nodes.taken_back AS taken_back,
    coalesce(usage.ended_at, boxes.seen_at, usage.started_at) AS end,
    json_extract(boxes.facts, '$.place.cloud') AS cloud,
    json_extract(boxes.facts, '$.place.region') AS region,
    json_extract(boxes.facts, '$.offer.instance_type') AS instance_type
FROM boxes JOIN nodes ON nodes.box = boxes.id
JOIN usage ON usage.box = boxes.id AND usage.resource = nodes.instance_id AND usage.part = 'compute'
WHERE {owned} AND json_extract(boxes.facts, '$.offer.purchase') = 'spot'
    AND json_extract(boxes.facts, '$.place') IS NOT NULL
ORDER BY usage.n, usage.box
"""
POSITION = " UNION ALL ".join(f"SELECT epoch, number FROM {table} WHERE id = :id" for table in NUMBERED)  # noqa: S608
"""Asks for the epoch of a box or run and the number of its last event."""
_USAGE = """
SELECT usage.*, machine.cloud, machine.region FROM usage LEFT JOIN resources AS machine
ON machine.box = usage.box AND machine.n = (
    SELECT n FROM resources
    WHERE box = usage.box AND kind IN ('instance', 'disk', 'snapshot', 'image') AND id = usage.resource
    LIMIT 1)
"""


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

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    # --- boxes

    def box(self, id: str) -> Box:  # noqa: A002
        """The box with this id. Raises ``KeyError``."""
        found = self._boxes("id = :id", {"id": id})
        if not found:
            raise KeyError(id)
        return found[0]

    def boxes(self, owner: str | None, *, over: bool, kind: Kind | None) -> list[Box]:
        """An owner's holdings of a kind, or all, oldest first; ``over`` adds deleted and failed ones."""
        conditions = [
            "1 = 1" if owner is None else self.owned,
            *([] if over else [LIVING]),
            *([] if kind is None else ["kind = :kind"]),
        ]
        return self._boxes(" AND ".join(conditions), {"owner": owner, "kind": kind and str(kind)})

    def known(self, ids: Collection[str]) -> list[Box]:
        """The boxes of these ids that are there, in whatever state."""
        return [box for condition, values in _among("id", ids) for box in self._boxes(condition, values)]

    def named(self, owner: str, name: str) -> list[Box]:
        """An owner's boxes with this name or id, in whatever state, oldest first."""
        found = [
            box
            for column in ("name", "id")
            for box in self._boxes(f"{self.owned} AND {column} = :name", {"owner": owner, "name": name})
        ]
        return sorted({box.id: box for box in found}.values(), key=lambda box: box.id)

    def living_names(self, owner: str) -> set[str]:
        """The names that an owner's living boxes have."""
        query = f"SELECT name FROM boxes WHERE {self.owned} AND {LIVING}"  # noqa: S608
        return {row["name"] for row in self._rows(query, {"owner": owner})}

    def living_of_run(self, owner: str, run_id: str | None) -> str | None:
        """The name of a living box that belongs to a run; ``None`` where there is none."""
        query = f"SELECT name FROM boxes WHERE {self.owned} AND run_id = :run_id AND {LIVING}"  # noqa: S608
        names = [row["name"] for row in self._rows(query, {"owner": owner, "run_id": run_id})]
        return names[0] if names else None

    def position(self, box: str) -> tuple[int, int]:
        """The epoch of a box or run and the number of its last event; zeros for one that is not there."""
        rows = self._rows(POSITION, {"id": box})
        return (rows[0]["epoch"], rows[0]["number"]) if rows else (0, 0)

    # --- runs

    def run(self, id: str) -> Run:  # noqa: A002
        """The run with this internal id. Raises ``KeyError``."""
        found = self._runs("id = :id", {"id": id})
        if not found:
            raise KeyError(id)
        return found[0]

    def runs(self, owner: str, *, over: bool, since: datetime | None) -> list[Run]:
        """An owner's runs, oldest first; ``over`` adds those that are over, or that ended ``since`` then."""
        going_on = f"({GOING_ON} OR ended_at >= :since)" if over and since else "1 = 1" if over else GOING_ON
        values = {"owner": owner, "since": since and since.isoformat()}
        return self._runs(f"{self.owned} AND {going_on}", values)

    def runs_named(self, owner: str, run_id: str) -> list[Run]:
        """An owner's runs with this id, in whatever state, oldest first."""
        return self._runs(f"{self.owned} AND run_id = :run_id", {"owner": owner, "run_id": run_id})

    def _runs(self, condition: str, values: Mapping[str, Any]) -> list[Run]:
        return list(map(_run, self._rows(f"SELECT * FROM runs WHERE {condition} ORDER BY id", values)))  # noqa: S608

    # --- budgets and the policy

    def settings(self) -> Settings:
        """The budgets of all owners, by name, and the policy."""
        query = "SELECT id, name, by, at, terms FROM budgets WHERE terms IS NOT NULL ORDER BY name"
        rows = self._rows(query, {"owner": OF_SETTINGS})
        policies = [_policy(row) for row in rows if row["id"] == POLICY_ID]
        return Settings(
            budgets=tuple(_budget(row) for row in rows if row["id"] != POLICY_ID),
            policy=policies[0] if policies else None,
        )

    def billed_since(self, since: datetime | None) -> list[Box]:
        """The holdings of all owners that live, or ended since then, or of all times; oldest first."""
        lives = "1 = 1" if since is None else f"({LIVING} OR coalesce(ended_at, created_at) >= :since)"
        return self._boxes(lives, {"owner": None, "since": since and since.isoformat()})

    # --- what boxes have

    def intents(self, box: str | None, *, unresolved: bool) -> list[Intent]:
        """Create intents, oldest first: of one box or all, those without a known outcome or all."""
        query = f"SELECT * FROM intents{_where(box, UNRESOLVED if unresolved else None)} ORDER BY at, id"  # noqa: S608
        return list(map(_intent, self._rows(query, {"box": box})))

    def resources(self, box: str | None, *, present: bool) -> list[ResourceRow]:
        """Resources in the order in which they were made: of one box or all, those not gone or all."""
        query = f"SELECT * FROM resources{_where(box, PRESENT if present else None)} ORDER BY n, box"  # noqa: S608
        return list(map(_resource, self._rows(query, {"box": box})))

    def resources_of(self, ids: Collection[str]) -> list[ResourceRow]:
        """Every resource that these boxes ever had, in whatever state, in the order of their making."""
        return [
            _resource(row)
            for condition, values in _among("box", ids)
            for row in self._rows(f"SELECT * FROM resources WHERE {condition} ORDER BY n, box", values)  # noqa: S608
        ]

    def spot_runs(self, owner: str) -> list[SpotRun]:
        """The intervals in which machines of an owner's boxes ran on spot, deleted boxes included.

        An interval without an end is counted until its box was last seen. Machines that their box has no
        longer (of failed attempts, or replaced) are left out: nothing tells whether they were taken back.
        """
        return list(map(_spot_run, self._rows(_SPOT_RUNS.format(owned=self.owned), {"owner": owner})))

    # --- events

    def since(self, cursor: int, most: int) -> tuple[list[StoredEvent], int]:
        """The events after a cursor, in the order of their writing, and the cursor after the last of them."""
        query = "SELECT * FROM events WHERE seq > :cursor ORDER BY seq LIMIT :most"
        rows = self._settled(query, {"cursor": cursor, "most": most})
        return list(map(_event, rows)), rows[-1]["seq"] if rows else cursor

    def last(self) -> int:
        """The cursor after the last event; 0 without one."""
        [row] = self._settled("SELECT coalesce(max(seq), 0) AS last FROM events", {})
        return int(row["last"])

    def history(self, box: str) -> list[StoredEvent]:
        """Every event of a box, oldest first."""
        query = "SELECT * FROM events WHERE box = :box ORDER BY number"
        return list(map(_event, self._rows(query, {"box": box})))

    # --- inside

    def _boxes(self, condition: str, values: Mapping[str, Any]) -> list[Box]:
        """The boxes of a condition, by id, with what other tables hold of them."""
        of_these = f"box IN (SELECT id FROM boxes WHERE {condition})"  # noqa: S608
        queries = (
            f"SELECT * FROM boxes WHERE {condition} ORDER BY id",  # noqa: S608
            f"SELECT * FROM nodes WHERE {of_these} ORDER BY box, number",  # noqa: S608
            f"{_USAGE} WHERE usage.{of_these} ORDER BY usage.n",
        )
        boxes, node_rows, usage_rows = self._ask([(query, values) for query in queries])
        nodes: dict[str, list[Node]] = defaultdict(list)
        for row in node_rows:
            nodes[row["box"]].append(_node(row))
        usage: dict[str, list[Usage]] = defaultdict(list)
        for row in usage_rows:
            usage[row["box"]].append(_usage(row))
        return [_box(row, nodes[row["id"]], usage[row["id"]]) for row in boxes]

    def _rows(self, query: str, values: Mapping[str, Any]) -> Sequence[Row]:
        [rows] = self._ask([(query, values)])
        return rows

    def _settled(self, query: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """Rows of events, of which none before the last one is still to come."""
        return self._rows(query, values)


# --- rows to values


def _box(row: Row, nodes: Iterable[Node], usage: Iterable[Usage]) -> Box:
    values = _held(row)
    facts = read_facts(json.loads(values.pop("facts"))).given
    facts.pop("zone", None)  # told before the place that it is in
    values |= {
        "kind": Kind(values["kind"]),
        "state": BoxState(values["state"]),
        "nodes": tuple(nodes),
        "usage": tuple(usage),
    }
    return Box(**values, **facts)


def _run(row: Row) -> Run:
    values = _held(row)
    facts = read_run_facts(json.loads(values.pop("facts")))
    values |= {each.name: getattr(facts, each.name) for each in fields(facts)}
    values["state"] = RunState(values["state"])
    return Run(**values)


def _held(row: Row) -> dict[str, Any]:
    """The columns of what has a lease, with times and lease as values."""
    values = _values(row)
    lease: dict[str, Any] | None = json.loads(values["lease"]) if values["lease"] else None
    values |= {key: _time(value) for key, value in values.items() if key.endswith("_at")}
    if lease:
        lease["beat"] = datetime.fromisoformat(lease["beat"])
    values["lease"] = Lease(**lease) if lease else None
    return values


def _policy(row: Row) -> Policy:
    rules = read_rules(json.loads(row["terms"]))
    return Policy(rules=rules, by=row["by"], at=datetime.fromisoformat(row["at"]))


def _budget(row: Row) -> Budget:
    return Budget(
        id=row["id"],
        name=row["name"],
        terms=read_terms(json.loads(row["terms"])),
        by=row["by"],
        at=datetime.fromisoformat(row["at"]),
    )


def _node(row: Row) -> Node:
    return Node(
        instance_id=row["instance_id"],
        state=State(row["state"]),
        public_ip=row["public_ip"],
        private_ip=row["private_ip"],
        billed=bool(row["billed"]),
        started_at=_time(row["started_at"]),
        ended_at=_time(row["ended_at"]),
        taken_back=bool(row["taken_back"]),
    )


def _usage(row: Row) -> Usage:
    price = None
    if row["price"] is not None:
        day = date.fromisoformat(row["as_of"]) if row["as_of"] else None
        price = Price(amount=Decimal(row["price"]), currency=row["currency"], as_of=day, source=row["source"])
    return Usage(
        box=row["box"],
        resource=row["resource"],
        part=row["part"],
        start=datetime.fromisoformat(row["started_at"]),
        end=_time(row["ended_at"]),
        price=price,
        gib=row["gib"],
        paid_before=bool(row["paid_before"]),
        cloud=row["cloud"],
        region=row["region"],
    )


def _intent(row: Row) -> Intent:
    values = _values(row)
    values |= {name: Decimal(values[name]) for name in ("price", "ceiling_usd") if values[name]}
    values["at"] = datetime.fromisoformat(values["at"])
    return Intent(**values)


def _resource(row: Row) -> ResourceRow:
    ref = Ref(
        cloud=row["cloud"],
        account=row["account"],
        region=row["region"],
        kind=ResourceKind(row["kind"]),
        id=row["id"],
    )
    at = datetime.fromisoformat(row["at"])
    return ResourceRow(box=row["box"], ref=ref, name=row["name"], state=row["state"], at=at)


def _spot_run(row: Row) -> SpotRun:
    return SpotRun(
        machine=row["machine"],
        cloud=row["cloud"],
        region=row["region"],
        instance_type=row["instance_type"],
        start=datetime.fromisoformat(row["start"]),
        end=datetime.fromisoformat(row["end"]),
        taken_back=bool(row["taken_back"]),
    )


def _event(row: Row) -> StoredEvent:
    return StoredEvent(
        id=row["id"],
        at=datetime.fromisoformat(row["at"]),
        box=row["box"],
        number=row["number"],
        event=read(row["type"], row["version"], json.loads(row["data"])),
    )


def _values(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118  (SQLite's rows are no mappings)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


# --- conditions


def _where(box: str | None, condition: str | None) -> str:
    conditions = [each for each in (box and "box = :box", condition) if each]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _among(column: str, ids: Collection[str]) -> Generator[tuple[str, dict[str, str]]]:
    """Conditions that a column has one of these values, with the values; of very many, some at a time."""
    wanted = sorted(ids)
    for first in range(0, len(wanted), _IDS_AT_ONCE):
        values = {f"v{number}": id_ for number, id_ in enumerate(wanted[first : first + _IDS_AT_ONCE])}
        yield f"{column} IN ({', '.join(f':{name}' for name in values)})", values
