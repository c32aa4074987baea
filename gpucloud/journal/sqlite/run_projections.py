"""The effect of the events of runs on the table ``runs``."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import datetime

from gpucloud.journal import events
from gpucloud.journal.facts import plain
from gpucloud.journal.runs import RUNS_OVER, RunFacts, RunState, read_run_facts, run_facts_text


def begun(connection: sqlite3.Connection, run: str, at: str, event: events.RunBegun) -> None:
    """Adds the run; what an engine wants goes on without the process that wrote it down, and is free."""
    is_wish = event.work.slots is not None
    connection.execute(
        "INSERT INTO runs (id, run_id, owner, state, epoch, number, lease, created_at, expires_at, facts)"
        " VALUES (:id, :run_id, :owner, :state, 0, 0, :lease, :at, :expires_at, :facts)",
        {
            "id": run,
            "run_id": event.run_id,
            "owner": event.owner,
            "state": str(RunState.RUNNING),
            "lease": None if is_wish else json.dumps(plain(event.lease)),
            "at": at,
            "expires_at": plain(event.expires_at),
            "facts": run_facts_text(RunFacts(work=event.work, detached=is_wish, unattended=is_wish)),
        },
    )


def attempted(connection: sqlite3.Connection, run: str, at: str, event: events.RunAttempted) -> None:
    """Adds an attempt."""
    state, facts = _row(connection, run)
    _refuse_over(run, state)
    _refuse_again(run, state)
    _set(connection, run, RunState.RUNNING, facts.attempted(event.box, datetime.fromisoformat(at)))
    connection.execute(
        "UPDATE runs SET expires_at = coalesce(?, expires_at) WHERE id = ?", (plain(event.expires_at), run)
    )


def detached(connection: sqlite3.Connection, run: str, at: str, event: events.RunDetached) -> None:  # noqa: ARG001
    """Leaves the run to whoever tends it."""
    state, facts = _row(connection, run)
    _refuse_over(run, state)
    _set(connection, run, state, replace(facts, detached=True, unattended=True))


def labelled(connection: sqlite3.Connection, run: str, at: str, event: events.RunLabelled) -> None:  # noqa: ARG001
    """Adds labels to the slots of a wish."""
    state, facts = _row(connection, run)
    _refuse_over(run, state)
    _set(connection, run, state, facts.labelled(event.labels))


def lost(connection: sqlite3.Connection, run: str, at: str, event: events.RunLost) -> None:  # noqa: ARG001
    """Marks the attempt under way as lost."""
    state, facts = _row(connection, run)
    _refuse_over(run, state)
    _refuse_again(run, state)
    _set(connection, run, RunState.WAITING, facts.lost(event.attempt, event.restart_at))


def fetching(connection: sqlite3.Connection, run: str, at: str, event: events.RunFetching) -> None:  # noqa: ARG001
    """Keeps how the command ended, and leaves the run to whoever brings its files."""
    state, facts = _row(connection, run)
    _refuse_over(run, state)
    _refuse_again(run, state)
    news = replace(facts, unattended=True, exit_code=event.exit_code, failure=event.failure)
    _set(connection, run, RunState.FETCHING, news)


def not_fetched(connection: sqlite3.Connection, run: str, at: str, event: events.RunNotFetched) -> None:  # noqa: ARG001
    """Keeps why files of a command that has ended could not be copied."""
    state, facts = _row(connection, run)
    if state is not RunState.FETCHING:
        raise ValueError(f"no files of run {run} are to be copied ({state})")
    _set(connection, run, state, replace(facts, not_fetched=event.why))


def ended(connection: sqlite3.Connection, run: str, at: str, event: events.RunEnded) -> None:
    """Ends the run; its lease is free."""
    state, facts = _row(connection, run)
    _refuse_over(run, state)
    code = facts.exit_code if event.exit_code is None else event.exit_code
    news = replace(facts, exit_code=code, failure=event.failure, restart_at=None, not_fetched=None)
    _set(connection, run, event.state, news)
    connection.execute("UPDATE runs SET ended_at = ?, lease = NULL WHERE id = ?", (at, run))


def _row(connection: sqlite3.Connection, run: str) -> tuple[RunState, RunFacts]:
    row = connection.execute("SELECT state, facts FROM runs WHERE id = ?", (run,)).fetchone()
    if row is None:
        raise ValueError(f"there is no run {run}")
    state, text = row
    return RunState(state), read_run_facts(json.loads(text))


def _refuse_over(run: str, state: RunState) -> None:
    if state in RUNS_OVER:
        raise ValueError(f"run {run} is over ({state})")


def _refuse_again(run: str, state: RunState) -> None:
    """A command that has ended is never run again, whatever happens to its files."""
    if state is RunState.FETCHING:
        raise ValueError(f"the command of run {run} has ended")


def _set(connection: sqlite3.Connection, run: str, state: RunState, facts: RunFacts) -> None:
    connection.execute(
        "UPDATE runs SET state = ?, facts = ? WHERE id = ?", (str(state), run_facts_text(facts), run)
    )
