"""Whether the tables of a journal are what its events say, and copies of journals."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from gpucloud.errors import UsageError
from gpucloud.journal.events import FirstOfBox, RunBegun
from gpucloud.journal.kinds import POLICY_ID
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Intent, ResourceRow, StoredEvent
from gpucloud.journal.sqlite.memory import replayed
from gpucloud.journal.sqlite.reading import Reader
from gpucloud.journal.sqlite.writing import asking
from gpucloud.journal.store import Journal

AT_ONCE = 500
"""How many events are read or copied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a verification found.

    Attributes:
        events: how many events were replayed.
        differences: a line for each box and run whose rows are not what the replay gives.
    """

    events: int
    differences: tuple[str, ...]


def verify(journal: Journal) -> Verified:
    """Replays every event on empty tables, and compares them with those of the journal.

    Leases are left out: their renewal is no event.

    Raises:
        JournalError: the journal cannot be read.
        UsageError: it was changed meanwhile.
    """
    before = journal.last()
    events = list(_events(journal))
    owners = {each.event.owner for each in events if isinstance(each.event, FirstOfBox | RunBegun)}
    kept = _contents(journal, owners)
    if journal.last() != before:
        raise UsageError("the journal changed while it was verified", hint="try again")
    try:
        with closing(replayed(events)) as connection:
            said = _contents(Reader(asking(connection)), owners)
    except (ValueError, sqlite3.IntegrityError) as error:
        return Verified(events=len(events), differences=(f"the events cannot be replayed: {error}",))
    names = sorted(kept.keys() | said.keys())
    differences = tuple(_difference(each, kept, said) for each in names if kept.get(each) != said.get(each))
    return Verified(events=len(events), differences=differences)


def copy(source: Journal, target: Journal) -> int:
    """Appends every event of a journal to another one, with its id: what is there already stays.

    Returns:
        How many events the other one did not have.

    Raises:
        JournalError: one of them cannot be used.
        UsageError: the other one has other events of the same box.
    """
    written, events = 0, list(_events(source))
    for first in range(0, len(events), AT_ONCE):
        written += target.adopt(events[first : first + AT_ONCE])
    return written


def refuse_work(journal: Journal) -> None:
    """Refuses a journal of which a process works on a box.

    Raises:
        UsageError: somebody holds a lease.
    """
    held = [box.name for box in journal.boxes(owner=None, kind=None) if box.lease and box.state not in OVER]
    if held:
        raise UsageError(
            f"the journal is in use: a gpucloud works on {', '.join(held)}", hint="wait for it, or end it"
        )


def _events(journal: Journal) -> Iterator[StoredEvent]:
    cursor, some = 0, True
    while some:
        found, cursor = journal.since(cursor, most=AT_ONCE)
        yield from found
        some = bool(found)


def _contents(tables: Journal | Reader, owners: set[str]) -> dict[str, Any]:
    """Everything in the tables, by box or run."""
    boxes = tables.boxes(owner=None, over=True, kind=None)
    parts: defaultdict[str, list[Intent | ResourceRow]] = defaultdict(list)
    for intent in tables.intents(None, unresolved=False):
        parts[intent.box].append(intent)
    for resource in tables.resources_of([box.id for box in boxes]):
        parts[resource.box].append(resource)
    runs = [run for owner in owners for run in tables.runs(owner=owner, over=True, since=None)]
    settings = tables.settings()
    return {
        **{box.id: (replace(box, lease=None), parts[box.id]) for box in boxes},
        **{run.id: replace(run, lease=None) for run in runs},
        **{budget.id: budget for budget in settings.budgets},
        POLICY_ID: settings.policy,
    }


def _difference(name: str, kept: dict[str, Any], said: dict[str, Any]) -> str:
    if name not in kept:
        return f"{name}: it is in the events, and not in the tables"
    if name not in said:
        return f"{name}: it is in the tables, and not in the events"
    return f"{name}: its rows are not what its events say"
