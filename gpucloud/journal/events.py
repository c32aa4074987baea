"""What the events say: one versioned model per type of event, and a reader for every older version.

An event is never rewritten. A payload of an older version is read by the reader of its version, which gives
the event as this version has it; what is written is always of the newest version. What is read is checked by
pydantic, which is imported only then: commands that do not read events are quick.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gpucloud.journal.facts import NOTHING_TOLD, Data, Facts, NamedRef, facts_of_version_1, plain
from gpucloud.journal.lifecycle import BoxState, Lease
from gpucloud.resources import Ref, ResourceKind

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 2
"""Of the payloads that are written."""


class UnreadableEventError(ValueError):
    """An event that this program cannot read: damaged, or of a newer version."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """What all events have. The time and the box stand beside the payload."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    type: ClassVar[str]

    def payload(self) -> str:
        """The event as the journal holds it."""
        values = {each.name: plain(getattr(self, each.name)) for each in fields(self)}
        return json.dumps(values, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class FirstOfBox(Event):
    """An event with which the journal begins to know a box."""

    name: str
    owner: str
    run_id: str | None
    op: str
    expires_at: datetime | None
    facts: Facts


@dataclass(frozen=True, kw_only=True)
class Planned(FirstOfBox):
    """A box has a name, and a lease says who works on it; nothing was asked of a cloud yet."""

    type = "planned"
    lease: Lease


@dataclass(frozen=True, kw_only=True)
class Recovered(FirstOfBox):
    """A box of which the journal knew nothing was found by its tags."""

    type = "recovered"
    state: BoxState
    created_at: datetime
    resources: tuple[NamedRef, ...]


@dataclass(frozen=True, kw_only=True)
class Taken(Event):
    """Another process works on the box from now on. ``over``: the one before was not proven dead."""

    type = "taken"
    lease: Lease
    over: bool = False


@dataclass(frozen=True, kw_only=True)
class Released(Event):
    """Nobody works on the box."""

    type = "released"


@dataclass(frozen=True, kw_only=True)
class Intended(Event):
    """An attempt is about to be prepared: the box is now what this offer is."""

    type = "intended"
    intent: str
    op: str
    cloud: str
    account: str
    region: str
    zone: str
    token: str
    name: str
    ceiling_usd: Decimal | None = None
    expires: str | None = None
    facts: Facts


@dataclass(frozen=True, kw_only=True)
class Hashed(Event):
    """The request is complete: from now on the create call may have left."""

    type = "hashed"
    intent: str
    request_hash: str


@dataclass(frozen=True, kw_only=True)
class Resolved(Event):
    """The outcome of a create call: ``made``, ``closed`` (nothing was made), ``watched`` (look once more)."""

    type = "resolved"
    intent: str
    status: Literal["made", "closed", "watched"]
    started_at: datetime | None = None
    resources: tuple[NamedRef, ...] = ()
    facts: Facts = NOTHING_TOLD


@dataclass(frozen=True, kw_only=True)
class OfResource(Event):
    """An event of one resource."""

    resource: NamedRef


@dataclass(frozen=True, kw_only=True)
class Making(OfResource):
    """A resource is about to be made; it has no id yet."""

    type = "making"


@dataclass(frozen=True, kw_only=True)
class Made(OfResource):
    """The id of a resource is known."""

    type = "made"


@dataclass(frozen=True, kw_only=True)
class DeleteAsked(OfResource):
    """The cloud accepted the deletion of a resource."""

    type = "delete_asked"


@dataclass(frozen=True, kw_only=True)
class GoneOnce(OfResource):
    """A resource was not found once after its deletion."""

    type = "gone_once"


@dataclass(frozen=True, kw_only=True)
class Gone(OfResource):
    """A resource is gone: the cloud shows it in its terminal state, or has not found it twice."""

    type = "gone"


@dataclass(frozen=True, kw_only=True)
class Extended(Event):
    """The end of the box was moved; ``None`` is no end."""

    type = "extended"
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Seen(Event):
    """What a cloud or the box itself has shown."""

    type = "seen"
    state: BoxState | None = None
    facts: Facts = NOTHING_TOLD


@dataclass(frozen=True, kw_only=True)
class StateChanged(Event):
    """The state of the box changed."""

    type = "state"
    state: BoxState
    facts: Facts = NOTHING_TOLD


_TYPES: Mapping[str, type[Event]] = {
    each.type: each
    for each in (
        Planned,
        Recovered,
        Taken,
        Released,
        Intended,
        Hashed,
        Resolved,
        Making,
        Made,
        DeleteAsked,
        GoneOnce,
        Gone,
        Extended,
        Seen,
        StateChanged,
    )
}


def named(ref: Ref, name: str | None = None) -> NamedRef:
    """A resource with its name; one that was found goes by its id."""
    return NamedRef(ref=ref, name=ref.id if name is None else name)


def read(type: str, version: int, data: Data) -> Event:  # noqa: A002  (the field's own name)
    """An event of any version that was ever written.

    Args:
        type: of the event.
        version: of its payload.
        data: the payload, from its JSON.

    Raises:
        UnreadableEventError: it is of a newer version, or not what events of its type say.
    """
    if type not in _TYPES or not 1 <= version <= VERSION:
        raise UnreadableEventError(f"events of type {type!r}, version {version}, are of a newer gpucloud")
    try:
        values = data if version == VERSION else _FROM_VERSION_1.get(type, _as_it_is)(data)
        return _model(type).validate_python({**values})
    except (AttributeError, KeyError, TypeError, ArithmeticError, ValueError) as error:
        raise UnreadableEventError(f"an event of type {type!r} is damaged: {error}") from error


@cache
def _model(type: str) -> TypeAdapter[Event]:  # noqa: A002
    from pydantic import TypeAdapter

    return TypeAdapter(_TYPES[type])


# --- the note beside a box's keys


def ready_note(facts: Facts) -> Data:
    """What is noted of a box that became ready: an older copy of the journal does not know it."""
    return {"version": VERSION, "facts": plain(facts)}


def read_ready_note(note: Data) -> Facts:
    """The facts of a note of any version. Version 1 is the bag itself.

    Raises:
        UnreadableEventError: as :func:`read`.
    """
    version = note.get("version", 1)
    event = read("seen", version, {"facts": note if version == 1 else note.get("facts")})
    assert isinstance(event, Seen)  # noqa: S101  (the type that was asked for)
    return event.facts


# --- readers of version 1: untyped bags; ``things`` are resources


def _as_it_is(data: Data) -> Data:
    return data


def _with_facts(data: Data) -> dict[str, Any]:
    return {**data, "facts": facts_of_version_1(data.get("facts") or {})}


def _named_of_version_1(data: Data) -> NamedRef:
    """A resource as version 1 held it."""
    place = {name: data[name] for name in ("cloud", "account", "region", "id")}
    return NamedRef(ref=Ref(kind=ResourceKind(data["kind"]), **place), name=data["name"])


def _of_resource(data: Data) -> Data:
    return {"resource": _named_of_version_1(data)}


def _with_resources(data: Data) -> Data:
    values = _with_facts(data)
    things = values.pop("things", ())
    return {**values, "resources": tuple(map(_named_of_version_1, things))}


def _intended(data: Data) -> Data:
    place = {name: data[name] for name in ("cloud", "account", "region", "zone")}
    return {**data, "facts": facts_of_version_1(data["facts"], place), "zone": data["zone"] or ""}


def _state(data: Data) -> Data:
    """The time of the change stood twice in some of them."""
    return {name: value for name, value in _with_facts(data).items() if name != "at"}


_FROM_VERSION_1: Mapping[str, Callable[[Data], Data]] = {
    "planned": _with_facts,
    "recovered": _with_resources,
    "intended": _intended,
    "resolved": _with_resources,
    **dict.fromkeys(("making", "made", "delete_asked", "gone_once", "gone"), _of_resource),
    "seen": _with_facts,
    "state": _state,
}
