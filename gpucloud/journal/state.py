"""What events fold to: a frozen value for each box, volume, snapshot, run, budget, and the policy.

``apply`` is the only place where an event has an effect. It is pure: a journal, its verification and its
copies come to the same states, whatever database has the events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from gpucloud.journal import holding_state, run_state
from gpucloud.journal.budgets import Budget
from gpucloud.journal.events import (
    BudgetRemoved,
    BudgetSet,
    FirstOfBox,
    JournalEvent,
    PolicyApplied,
    Released,
    RunBegun,
    Taken,
)
from gpucloud.journal.policy import Policy
from gpucloud.journal.records import Holding, Run, StoredEvent
from gpucloud.journal.runs import RUNS_OVER

State = Holding | Run | Budget | Policy
"""What has events of its own."""


def apply(state: State | None, stored: StoredEvent) -> State:
    """The state after one more event.

    Args:
        state: after the event before; ``None`` before the first one.
        stored: the event.

    Raises:
        ValueError: the event cannot follow the previous ones.
    """
    return replace(_applied(state, stored.box, stored.at, stored.event), number=stored.number)


def fold(events: Iterable[StoredEvent], state: State | None = None) -> State | None:
    """The state after several events of one box, run, budget or policy.

    Raises:
        ValueError: one cannot follow those before it.
    """
    for each in events:
        state = apply(state, each)
    return state


def _applied(state: State | None, id: str, at: datetime, event: JournalEvent) -> State:  # noqa: A002, PLR0911  (one per kind of effect)
    match state, event:
        case None, FirstOfBox():
            return holding_state.begun(id, at, event)
        case None, RunBegun():
            return run_state.begun(id, at, event)
        case None | Budget(), BudgetSet():
            return Budget(id=id, name=event.name, terms=event.terms, by=event.by, at=at)
        case None | Policy(), PolicyApplied():
            return Policy(id=id, rules=event.rules, by=event.by, at=at)
        case Budget(), BudgetRemoved():
            return replace(state, by=event.by, at=at, removed=True)
        case Holding(), Taken():
            seized = at if event.over else state.taken_over_at
            return replace(state, epoch=state.epoch + 1, lease=event.lease, taken_over_at=seized)
        case Run(), Taken():
            return replace(state, epoch=state.epoch + 1, lease=event.lease)
        case Holding() | Run(), Released():
            return replace(state, lease=None)
        case Run(), _ if state.state in RUNS_OVER:
            raise ValueError(f"run {id} is over ({state.state})")
        case Holding(), _ if type(event) in holding_state.EFFECTS:
            return holding_state.EFFECTS[type(event)](state, at, event)
        case Run(), _ if type(event) in run_state.EFFECTS:
            return run_state.EFFECTS[type(event)](state, at, event)
        case _:
            raise ValueError(f"{event.type!r} cannot be the next event of {id}")
