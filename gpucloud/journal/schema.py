"""The journal's tables, and what each type of event does to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from gpucloud.journal.lifecycle import OVER, BoxState, may_become

Data = Mapping[str, Any]

metadata = sa.MetaData()

# As text, values included: SQLite uses a partial index only where a query says the same in so many words.
LIVING = sa.text("state NOT IN ('deleted', 'failed')")
PRESENT = sa.text("state != 'gone'")
UNRESOLVED = sa.text("status IN ('open', 'watched')")

events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("box", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)
boxes = sa.Table(
    "boxes",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("op", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False, default=0),
    sa.Column("lease", sa.Text),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("started_at", sa.Text),
    sa.Column("ended_at", sa.Text),
    sa.Column("expires_at", sa.Text),
    sa.Column("seen_at", sa.Text),
    sa.Column("taken_over_at", sa.Text),
    sa.Column("facts", sa.Text, nullable=False),  # what the offer and the machines are, as JSON
    sa.Index(
        "one_living_box_per_name",
        "owner",
        "name",
        unique=True,
        sqlite_where=LIVING,
    ),
    sa.Index("boxes_by_name", "owner", "name"),
)
intents = sa.Table(
    "intents",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("box", sa.Text, nullable=False, index=True),
    sa.Column("cloud", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("region", sa.Text, nullable=False),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),  # planned, open, watched, made, closed
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Index("unresolved_intents", "at", "id", sqlite_where=UNRESOLVED),
)
resources = sa.Table(
    "things",
    metadata,
    sa.Column("n", sa.Integer, primary_key=True),
    sa.Column("box", sa.Text, nullable=False, index=True),
    sa.Column("cloud", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("region", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),  # empty while it is being made
    sa.Column("state", sa.Text, nullable=False),  # making, made, delete_asked, gone_once, gone
    sa.Column("at", sa.Text, nullable=False),
    sa.Index("present_things", "n", sqlite_where=PRESENT),
)


# What is the same each time is made once: making a statement takes SQLAlchemy longer than SQLite to run it.
_OF_BOX = boxes.c.id == sa.bindparam("box")
_STATE = sa.select(boxes.c.state).where(_OF_BOX)
_FACTS = sa.select(boxes.c.facts).where(_OF_BOX)
_CHANGE_BOX = sa.update(boxes).where(_OF_BOX)
_TAKE_BOX = _CHANGE_BOX.values(epoch=boxes.c.epoch + 1)
_OF_INTENT = intents.c.id == sa.bindparam("intent")
_REQUEST = sa.select(intents.c.data).where(_OF_INTENT)
_CHANGE_INTENT = sa.update(intents).where(_OF_INTENT)
_ADD_RESOURCE = sa.insert(resources)
_CHANGE_RESOURCE = sa.update(resources).where(resources.c.n == sa.bindparam("number"))


def _to_2(connection: sa.Connection) -> None:
    """When a box was taken from a holder that was not proven dead."""
    connection.exec_driver_sql("ALTER TABLE boxes ADD COLUMN taken_over_at TEXT")


def _to_3(connection: sa.Connection) -> None:
    """So that commands read what matters, and not every box that ever was."""
    new = {"boxes_by_name", "unresolved_intents", "present_things"}
    for index in [index for table in metadata.sorted_tables for index in table.indexes if index.name in new]:
        index.create(connection, checkfirst=True)


_STEPS: tuple[Callable[[sa.Connection], None], ...] = (_to_2, _to_3)
"""What makes version 2 of version 1, and so on. A released one is never changed."""

VERSION = len(_STEPS) + 1
"""The version of the tables above."""


def migrate(connection: sa.Connection, version: int) -> None:
    """Brings the tables from a version to :data:`VERSION`; 0 is an empty file."""
    if version == 0:
        metadata.create_all(connection)
        return
    for step in _STEPS[version - 1 :]:
        step(connection)


# --- the projections: one function per type of event


def _planned(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    connection.execute(
        sa.insert(boxes).values(
            id=box,
            name=data["name"],
            owner=data["owner"],
            run_id=data["run_id"],
            op=data["op"],
            state="planned",
            epoch=0,
            lease=json.dumps(data["lease"]),
            created_at=at,
            expires_at=data["expires_at"],
            facts=json.dumps(data["facts"], sort_keys=True),
        )
    )


def _recovered(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    """A box of which the journal knew nothing was found by its tags."""
    connection.execute(
        sa.insert(boxes).values(
            id=box,
            epoch=0,
            started_at=data["created_at"],
            facts=json.dumps(data["facts"], sort_keys=True),
            seen_at=at,
            **{
                key: data[key]
                for key in ("name", "owner", "run_id", "op", "state", "created_at", "expires_at")
            },
        )
    )
    for resource in data["things"]:
        _made(connection, box, at, resource)


def _taken(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    over = {"taken_over_at": at} if data.get("over") else {}
    connection.execute(_TAKE_BOX, {"box": box, "lease": json.dumps(data["lease"]), **over})


def _released(connection: sa.Connection, box: str, at: str, data: Data) -> None:  # noqa: ARG001
    connection.execute(_CHANGE_BOX, {"box": box, "lease": None})


def _intended(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    """A create call is about to be prepared: the box is now what this offer is."""
    connection.execute(
        sa.insert(intents).values(
            id=data["intent"],
            box=box,
            cloud=data["cloud"],
            account=data["account"],
            region=data["region"],
            token=data["token"],
            status="planned",
            at=at,
            data=json.dumps(data, sort_keys=True),
        )
    )
    _merge_facts(connection, box, data["facts"])
    _set_state(connection, box, BoxState.PROVISIONING)


def _hashed(connection: sa.Connection, box: str, at: str, data: Data) -> None:  # noqa: ARG001
    """The request is complete: from now on the create call may have left."""
    this = {"intent": data["intent"]}
    known = json.loads(connection.execute(_REQUEST, this).scalar_one())
    known["request_hash"] = data["request_hash"]
    text = json.dumps(known, sort_keys=True)
    connection.execute(_CHANGE_INTENT, {**this, "data": text, "status": "open", "at": at})


def _resolved(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    """The outcome of a create call: ``made``, ``closed`` (nothing was made), ``watched`` (look once more)."""
    connection.execute(_CHANGE_INTENT, {"intent": data["intent"], "status": data["status"]})
    for resource in data.get("things", []):
        _made(connection, box, at, resource)
    if data.get("facts"):  # the machines, as the cloud's answer shows them
        _seen(connection, box, at, {"facts": data["facts"]})
    if data.get("started_at"):
        connection.execute(_CHANGE_BOX, {"box": box, "started_at": data["started_at"]})


def _making(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    connection.execute(_ADD_RESOURCE, {**data, "box": box, "state": "making", "at": at})


def _made(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    """A thing's id is known: it is the one that was being made, or was known before."""
    place = sa.and_(
        resources.c.box == box,
        resources.c.cloud == data["cloud"],
        resources.c.account == data["account"],
        resources.c.region == data["region"],
        resources.c.kind == data["kind"],
    )
    by_id = sa.select(resources.c.n, resources.c.state).where(place, resources.c.id == data["id"])
    same_name = resources.c.name == data["name"]
    making = sa.and_(place, resources.c.id == "", resources.c.state == "making")
    known = connection.execute(by_id).first()
    pending = connection.execute(
        sa.select(resources.c.n, same_name).where(making).order_by(sa.desc(same_name), resources.c.n)
    ).first()
    if known is not None:
        if known.state in {"making", "gone", "gone_once"}:
            connection.execute(_CHANGE_RESOURCE, {"number": known.n, "state": "made", "at": at})
        if pending is not None and pending[1]:  # it was about to be made, and was found made
            connection.execute(sa.delete(resources).where(resources.c.n == pending.n))
    elif pending is not None:
        values = {"id": data["id"], "state": "made", "at": at}
        connection.execute(_CHANGE_RESOURCE, {"number": pending.n, **values})
    else:
        connection.execute(_ADD_RESOURCE, {**data, "box": box, "state": "made", "at": at})


_PLACE = ("cloud", "region", "kind", "id")
_CHANGE_RESOURCE_AT = sa.update(resources).where(
    resources.c.box == sa.bindparam("of_box"),
    *(resources.c[name] == sa.bindparam(f"of_{name}") for name in _PLACE),
)
_CHANGE_NAMELESS = _CHANGE_RESOURCE_AT.where(resources.c.name == sa.bindparam("of_name"))


def _resource_state(state: str) -> Callable[[sa.Connection, str, str, Data], None]:
    def project(connection: sa.Connection, box: str, at: str, data: Data) -> None:
        this = {"of_box": box, **{f"of_{name}": data[name] for name in (*_PLACE, "name")}}
        change = _CHANGE_RESOURCE_AT if data["id"] else _CHANGE_NAMELESS
        connection.execute(change, {**this, "state": state, "at": at})

    return project


def _seen(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    connection.execute(_CHANGE_BOX, {"box": box, "seen_at": at})
    if data.get("facts"):
        _merge_facts(connection, box, data["facts"])
    if data.get("state"):
        _set_state(connection, box, BoxState(data["state"]))


def _extended(connection: sa.Connection, box: str, at: str, data: Data) -> None:  # noqa: ARG001
    connection.execute(_CHANGE_BOX, {"box": box, "expires_at": data["expires_at"]})


def _state(connection: sa.Connection, box: str, at: str, data: Data) -> None:
    state = BoxState(data["state"])
    _set_state(connection, box, state)
    if data.get("facts"):  # what the cloud, or the box itself, has just shown
        _seen(connection, box, at, {"facts": data["facts"]})
    if state in OVER:
        connection.execute(_CHANGE_BOX, {"box": box, "ended_at": at, "lease": None})


def _set_state(connection: sa.Connection, box: str, state: BoxState) -> None:
    old = BoxState(connection.execute(_STATE, {"box": box}).scalar_one())
    if not may_become(old, state):
        raise ValueError(f"box {box} cannot go from {old} to {state}")
    connection.execute(_CHANGE_BOX, {"box": box, "state": str(state)})


def _merge_facts(connection: sa.Connection, box: str, facts: Data) -> None:
    old = json.loads(connection.execute(_FACTS, {"box": box}).scalar_one())
    text = json.dumps({**old, **facts}, sort_keys=True)
    connection.execute(_CHANGE_BOX, {"box": box, "facts": text})


PROJECT: dict[str, Callable[[sa.Connection, str, str, Data], None]] = {
    "planned": _planned,
    "recovered": _recovered,
    "taken": _taken,
    "released": _released,
    "intended": _intended,
    "hashed": _hashed,
    "resolved": _resolved,
    "making": _making,
    "made": _made,
    "delete_asked": _resource_state("delete_asked"),
    "gone_once": _resource_state("gone_once"),
    "gone": _resource_state("gone"),
    "extended": _extended,
    "seen": _seen,
    "state": _state,
}
