"""The payloads of events: one versioned model per type of event, and a reader for every older version.

An event is of a box or of a run, each with events, a lease and an epoch of its own; or of a budget or of the
policy, which nobody holds.

An event is never rewritten. Nothing was released yet, so there is one version of every payload.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, Literal

from gpucloud.journal.budgets import Terms
from gpucloud.journal.facts import NO_FACTS, Facts, NamedRef
from gpucloud.journal.kinds import Kind
from gpucloud.journal.lifecycle import BoxState, Lease
from gpucloud.journal.plain import Data, Read, plain, reader
from gpucloud.journal.policy import Rules
from gpucloud.journal.runs import AttemptRecord, Failure, RunState, Work
from gpucloud.resources import Ref

VERSION = 1
"""The version of payloads."""


class UnreadableEventError(ValueError):
    """An event that this program cannot read: damaged, or of a newer version."""


@dataclass(frozen=True, kw_only=True)
class JournalEvent:
    """The base of all events. The time, and the box or run, are not part of the payload."""

    type: ClassVar[str]

    def payload(self) -> str:
        """The event as the journal stores it."""
        return json.dumps(plain(self), sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class FirstOfBox(JournalEvent):
    """The first event of a box in the journal."""

    name: str
    owner: str
    run_id: str | None
    op: str
    expires_at: datetime | None
    facts: Facts
    kind: Kind = Kind.BOX


@dataclass(frozen=True, kw_only=True)
class Planned(FirstOfBox):
    """A box has a name and a lease; no call was sent to a cloud yet."""

    type = "planned"
    lease: Lease


@dataclass(frozen=True, kw_only=True)
class Recovered(FirstOfBox):
    """A box that was not in the journal was found by its tags."""

    type = "recovered"
    state: BoxState
    created_at: datetime
    resources: tuple[NamedRef, ...]


@dataclass(frozen=True, kw_only=True)
class Taken(JournalEvent):
    """Another process holds the box or run from now on. ``over``: its holder was not proven dead."""

    type = "taken"
    lease: Lease
    over: bool = False


@dataclass(frozen=True, kw_only=True)
class Released(JournalEvent):
    """No process holds the box or run."""

    type = "released"


@dataclass(frozen=True, kw_only=True)
class Intended(JournalEvent):
    """An attempt is about to be prepared: the box now has the properties of this offer."""

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
class Hashed(JournalEvent):
    """The request is complete: from now on the create call may have been sent."""

    type = "hashed"
    intent: str
    request_hash: str


@dataclass(frozen=True, kw_only=True)
class Resolved(JournalEvent):
    """The outcome of a create call: ``made``, ``closed`` (nothing was made), ``watched`` (check again)."""

    type = "resolved"
    intent: str
    status: Literal["made", "closed", "watched"]
    started_at: datetime | None = None
    resources: tuple[NamedRef, ...] = ()
    facts: Facts = NO_FACTS


@dataclass(frozen=True, kw_only=True)
class OfResource(JournalEvent):
    """An event of one resource."""

    resource: NamedRef


@dataclass(frozen=True, kw_only=True)
class Making(OfResource):
    """A resource is about to be created; it has no id yet."""

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
    """A resource is gone: the cloud returns its terminal state, or has not found it twice.

    ``ended_at`` is since when it is not billed, by the cloud; ``None`` where the cloud does not tell.
    """

    type = "gone"
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Extended(JournalEvent):
    """The deadline of the box was moved; ``None`` is no deadline."""

    type = "extended"
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Seen(JournalEvent):
    """An observation of the cloud or of the box itself."""

    type = "seen"
    state: BoxState | None = None
    facts: Facts = NO_FACTS


@dataclass(frozen=True, kw_only=True)
class StateChanged(JournalEvent):
    """The state of the box changed."""

    type = "state"
    state: BoxState
    facts: Facts = NO_FACTS


@dataclass(frozen=True, kw_only=True)
class RunBegun(JournalEvent):
    """The first event of a run: it has an id and a lease; no box was planned for it yet."""

    type = "run_begun"
    run_id: str
    owner: str
    expires_at: datetime | None
    lease: Lease
    work: Work


@dataclass(frozen=True, kw_only=True)
class RunAttempted(JournalEvent):
    """A box is planned for a run, in the same transaction.

    ``expires_at`` is the deadline of the run from now on; it stays what it was where that is ``None``.
    """

    type = "run_attempted"
    box: str
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RunDetached(JournalEvent):
    """The command of a run has begun on its box, and goes on without the process that launched it."""

    type = "run_detached"


@dataclass(frozen=True, kw_only=True)
class RunLabelled(JournalEvent):
    """The engine that wants slots says more of them; a label that was there is replaced."""

    type = "run_labelled"
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RunLost(JournalEvent):
    """The attempt under way was lost, and another one is to be made at ``restart_at`` or later."""

    type = "run_lost"
    attempt: AttemptRecord
    restart_at: datetime


@dataclass(frozen=True, kw_only=True)
class RunFetching(JournalEvent):
    """The command of a run has ended: it is never run again. Its files are still on its box, which stays.

    From now on the run needs no process: whoever tends it, or fetches its files, goes on.
    """

    type = "run_fetching"
    exit_code: int
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class RunNotFetched(JournalEvent):
    """Files of a command that has ended could not be copied: their box is kept for them."""

    type = "run_not_fetched"
    why: str


@dataclass(frozen=True, kw_only=True)
class RunEnded(JournalEvent):
    """A run is over: nothing more is bought for it."""

    type = "run_ended"
    state: RunState
    exit_code: int | None = None
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetSet(JournalEvent):
    """A budget has these terms from now on; ``by`` is the owner id of who set it."""

    type = "budget_set"
    name: str
    by: str
    terms: Terms


@dataclass(frozen=True, kw_only=True)
class BudgetRemoved(JournalEvent):
    """A budget is no more, until it is set again."""

    type = "budget_removed"
    by: str


@dataclass(frozen=True, kw_only=True)
class PolicyApplied(JournalEvent):
    """These rules, and no others, are in force from now on; ``by`` is the owner id of who applied them."""

    type = "policy_applied"
    by: str
    rules: Rules


OF_SETTINGS = (BudgetSet, BudgetRemoved, PolicyApplied)
"""What admins say about all boxes: budgets and the policy."""
_TYPES: Mapping[str, type[JournalEvent]] = {
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
        RunBegun,
        RunAttempted,
        RunDetached,
        RunLabelled,
        RunLost,
        RunFetching,
        RunNotFetched,
        RunEnded,
        *OF_SETTINGS,
    )
}


def named(ref: Ref, name: str | None = None) -> NamedRef:
    """A resource with its name; the name of one that was found is its id."""
    return NamedRef(ref=ref, name=ref.id if name is None else name)


def read(type: str, version: int, data: Data) -> JournalEvent:  # noqa: A002  (the field's own name)
    """Reads an event.

    Args:
        type: the type of the event.
        version: the version of its payload.
        data: the payload, from its JSON.

    Raises:
        UnreadableEventError: it is of another version, or not valid for its type.
    """
    if type not in _TYPES or version != VERSION:
        raise UnreadableEventError(f"events of type {type!r}, version {version}, are of another gpucloud")
    try:
        event: JournalEvent = _reader(type)(data)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UnreadableEventError(f"an event of type {type!r} is damaged: {error}") from error
    return event


@cache
def _reader(type: str) -> Read:  # noqa: A002
    kind: Any = _TYPES[type]
    return reader(kind)


# --- the note next to a box's keys


def ready_note(facts: Facts) -> Data:
    """The note of a box that became ready, which an older copy of the journal lacks."""
    return {"version": VERSION, "facts": plain(facts)}


def read_ready_note(note: Data) -> Facts:
    """The facts of a note.

    Raises:
        UnreadableEventError: as :func:`read`.
    """
    event = read("seen", note.get("version", 0), {"facts": note.get("facts")})
    assert isinstance(event, Seen)  # noqa: S101  (the type that was asked for)
    return event.facts
