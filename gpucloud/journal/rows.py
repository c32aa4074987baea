"""A state as a row of the journal's table: what is searched in columns, and all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache
from typing import Any

from gpucloud.journal.budgets import Budget
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import VERSION
from gpucloud.journal.lifecycle import OVER, Lease
from gpucloud.journal.plain import Data, plain, reader
from gpucloud.journal.policy import Policy
from gpucloud.journal.records import TYPES, Box, Holding, Run, StoredEvent
from gpucloud.journal.runs import RUNS_OVER
from gpucloud.journal.state import State

COLUMNS = (
    *("id", "kind", "owner", "name", "run_id", "living", "created_at", "ended_at", "purchase"),
    *("unresolved", "present", "epoch", "number", "lease", "document"),
)
"""The columns of the table ``states``; ``unresolved`` and ``present`` count intents and resources."""
_TYPES: Mapping[str, Any] = {
    **{str(kind): of for kind, of in TYPES.items()},
    "run": Run,
    "budget": Budget,
    "policy": Policy,
}
_IN_COLUMNS = ("epoch", "number", "lease")
"""What a row has in columns alone: a lease is renewed without an event."""


def row_of(state: State) -> dict[str, Any]:
    """The row of a state, by :data:`COLUMNS`."""
    kind: Any = type(state)
    defaults = _defaults(kind)
    document = {
        name: value
        for name, value in plain(state).items()
        if name not in _IN_COLUMNS and (name not in defaults or value != defaults[name])
    }
    return {
        **dict.fromkeys(COLUMNS),
        "id": state.id,
        "number": state.number,
        **_searched(state),
        "document": json.dumps(document, sort_keys=True),
    }


@cache
def _defaults(kind: Any) -> Data:
    """The fields that a document leaves out where they have these values: most boxes have few of all."""
    known = {each.name: each.default for each in fields(kind) if each.default is not MISSING}
    made = {each.name: each.default_factory() for each in fields(kind) if each.default_factory is not MISSING}
    return {name: plain(value) for name, value in {**known, **made}.items() if name != "id"}


def _searched(state: State) -> dict[str, Any]:
    counts = {"unresolved": 0, "present": 0, "epoch": 0}
    match state:
        case Holding():
            return {
                **_held(state),
                **(_of_box(state) if isinstance(state, Box) else {}),
                "kind": str(state.kind),
                "name": state.name,
                "living": int(state.state not in OVER),
                "unresolved": len(state.unresolved),
                "present": len(state.present),
            }
        case Run():
            living = int(state.state not in RUNS_OVER)
            return {**counts, **_held(state), "kind": "run", "name": state.run_id, "living": living}
        case Budget():
            return {
                **counts,
                "kind": "budget",
                "owner": "",
                "name": state.name,
                "living": int(not state.removed),
            }
        case Policy():
            return {**counts, "kind": "policy", "owner": "", "name": "", "living": 1}


def _of_box(box: Box) -> dict[str, Any]:
    return {"run_id": box.run_id, "purchase": box.offer and str(box.offer.purchase)}


def _held(state: Holding | Run) -> dict[str, Any]:
    return {
        "owner": state.owner,
        "created_at": state.created_at.isoformat(),
        "ended_at": state.ended_at and state.ended_at.isoformat(),
        "epoch": state.epoch,
        "lease": lease_text(state.lease),
    }


def row_of_event(stored: StoredEvent) -> dict[str, Any]:
    """The row of an event."""
    return {
        "id": stored.id,
        "at": stored.at.isoformat(),
        "box": stored.box,
        "number": stored.number,
        "type": stored.event.type,
        "version": VERSION,
        "data": stored.event.payload(),
    }


def lease_text(lease: Lease | None) -> str | None:
    """A lease as its column has it."""
    return None if lease is None else json.dumps(plain(lease))


def read_lease(text: str | None) -> Lease | None:
    """The reverse of :func:`lease_text`."""
    if text is None:
        return None
    lease: Lease = reader(Lease)(json.loads(text))
    return lease


def state_of(row: Mapping[str, Any]) -> State:
    """The state of a row.

    Raises:
        JournalError: the row makes no sense; the message names it.
    """
    try:
        document: Data = json.loads(row["document"])
        kind = _TYPES[row["kind"]]
        held = {"epoch": row["epoch"], "lease": row["lease"] and json.loads(row["lease"])}
        own = held if issubclass(kind, Holding | Run) else {}
        state: State = reader(kind)({**document, **own, "number": row["number"]})
        if state.id != row["id"]:
            raise ValueError(f"it is of {state.id}")
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise JournalError(
            f"the state of {row['id']} in the journal makes no sense: {error}", hint="gpucloud journal verify"
        ) from error
    return state


def is_row_of(state: State, row: Mapping[str, Any]) -> bool:
    """Whether the columns of a row are those of its state. Leases are left out."""
    said = row_of(state)
    return all(row[name] == said[name] for name in COLUMNS if name not in {"lease", "document"})


def text_of(moment: datetime | None) -> str | None:
    """A time as columns have it."""
    return None if moment is None else moment.isoformat()
