"""What each event of a run makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from gpucloud.journal import events
from gpucloud.journal.records import Run
from gpucloud.journal.runs import AttemptRecord, RunState


def begun(id: str, at: datetime, event: events.RunBegun) -> Run:  # noqa: A002  (the field's own name)
    """A new run; what an engine wants goes on without the process that wrote it down, and is free."""
    is_wish = event.work.slots is not None
    return Run(
        id=id,
        run_id=event.run_id,
        owner=event.owner,
        state=RunState.RUNNING,
        lease=None if is_wish else event.lease,
        created_at=at,
        expires_at=event.expires_at,
        work=event.work,
        detached=is_wish,
        unattended=is_wish,
    )


def _attempted(run: Run, at: datetime, event: events.RunAttempted) -> Run:
    _refuse_ended_command(run)
    return replace(
        run,
        state=RunState.RUNNING,
        attempts=(*run.attempts, AttemptRecord(box=event.box, at=at)),
        restart_at=None,
        expires_at=event.expires_at or run.expires_at,
    )


def _detached(run: Run, at: datetime, event: events.RunDetached) -> Run:  # noqa: ARG001
    return replace(run, detached=True, unattended=True)


def _labelled(run: Run, at: datetime, event: events.RunLabelled) -> Run:  # noqa: ARG001
    slots = run.work.slots
    if slots is None:
        raise ValueError("only the wish of an engine has labels")
    news = replace(slots, labels={**slots.labels, **event.labels})
    return replace(run, work=replace(run.work, slots=news))


def _lost(run: Run, at: datetime, event: events.RunLost) -> Run:  # noqa: ARG001
    """Marks the attempt under way as lost; one without a box was not begun before."""
    _refuse_ended_command(run)
    before = run.attempts[:-1] if event.attempt.box is not None else run.attempts
    return replace(
        run, state=RunState.WAITING, attempts=(*before, event.attempt), restart_at=event.restart_at
    )


def _fetching(run: Run, at: datetime, event: events.RunFetching) -> Run:  # noqa: ARG001
    """Keeps how the command ended, and leaves the run to whoever brings its files."""
    _refuse_ended_command(run)
    return replace(
        run, state=RunState.FETCHING, unattended=True, exit_code=event.exit_code, failure=event.failure
    )


def _not_fetched(run: Run, at: datetime, event: events.RunNotFetched) -> Run:  # noqa: ARG001
    if run.state is not RunState.FETCHING:
        raise ValueError(f"no files of run {run.id} are to be copied ({run.state})")
    return replace(run, not_fetched=event.why)


def _ended(run: Run, at: datetime, event: events.RunEnded) -> Run:
    """Ends the run; its lease is free."""
    return replace(
        run,
        state=event.state,
        exit_code=run.exit_code if event.exit_code is None else event.exit_code,
        failure=event.failure,
        restart_at=None,
        not_fetched=None,
        ended_at=at,
        lease=None,
    )


def _refuse_ended_command(run: Run) -> None:
    """A command that has ended is never run again, whatever happens to its files."""
    if run.state is RunState.FETCHING:
        raise ValueError(f"the command of run {run.id} has ended")


EFFECTS: Mapping[type[events.JournalEvent], Callable[..., Run]] = {
    events.RunAttempted: _attempted,
    events.RunDetached: _detached,
    events.RunLabelled: _labelled,
    events.RunLost: _lost,
    events.RunFetching: _fetching,
    events.RunNotFetched: _not_fetched,
    events.RunEnded: _ended,
}
"""What each event makes of a run: ``(run, at, event)`` to the run after it."""
