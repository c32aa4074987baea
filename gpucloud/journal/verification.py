"""Whether the states of a journal are what its events say, and copies of journals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Holding, Run, StoredEvent
from gpucloud.journal.state import State, apply
from gpucloud.journal.store import Journal

AT_ONCE = 500
"""How many events are read or copied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a verification found.

    Attributes:
        events: how many events were folded.
        differences: a line for each box and run whose state is not what its events fold to.
    """

    events: int
    differences: tuple[str, ...]


def verify(journal: Journal) -> Verified:
    """Folds every event again, and compares the states with those of the journal.

    Leases are left out: their renewal is no event.

    Raises:
        JournalError: the journal cannot be read.
        UsageError: it was changed meanwhile.
    """
    before = journal.last()
    events = list(_events(journal))
    everything = journal.everything()
    kept = {state.id: _without_lease(state) for state, _ in everything}
    hidden = {state.id for state, is_found_by_itself in everything if not is_found_by_itself}
    if journal.last() != before:
        raise UsageError("the journal changed while it was verified", hint="try again")
    said: dict[str, State] = {}
    for each in events:
        try:
            said[each.box] = apply(said.get(each.box), each)
        except ValueError as error:
            what = f"{each.box}: event {each.number} cannot follow those before it: {error}"
            return Verified(events=len(events), differences=(what,))
    said = {id_: _without_lease(state) for id_, state in said.items()}
    names = sorted(kept.keys() | said.keys())
    differing = [each for each in names if each in hidden or kept.get(each) != said.get(each)]
    differences = tuple(_difference(each, kept, said) for each in differing)
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
    living = journal.holdings(Holding, owner=None)
    held = [each.name for each in living if each.lease and each.state not in OVER]
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


def _without_lease(state: State) -> State:
    return replace(state, lease=None) if isinstance(state, Holding | Run) else state


def _difference(name: str, kept: Mapping[str, State], said: Mapping[str, State]) -> str:
    if name not in kept:
        return f"{name}: it is in the events, and has no state"
    if name not in said:
        return f"{name}: it has a state, and no events"
    return f"{name}: its state is not what its events say"
