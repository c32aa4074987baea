"""A journal of years is no slower than a new one: commands read what lives, and by an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.boxes.connection import find_holding
from gpucloud.ending.reconcile import remains, settle
from gpucloud.ending.sweep import look
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.rows import row_of, state_of
from gpucloud.journal.store import Journal
from gpucloud.purchase.failover import check_name
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.ending.test_reconcile import ready
from tests.journals import connection_of
from tests.memory import TOKEN_ATOMIC, MemoryProvider

pytestmark = pytest.mark.files
FINISHED = 3000
PARTIAL = ("living_states", "one_living_holding_per_name", "present_states", "unresolved_states")
"""The indexes that hold only what is not over: to go through them is to read what matters."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A journal with one box that lives and thousands that are over, each with a thing and an intent."""
    clock = Clock()
    made = Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])
    ready(made)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection, connection:
        connection.row_factory = sqlite3.Row
        [living] = connection.execute("SELECT * FROM states").fetchall()
        connection.executemany(
            f"INSERT INTO states VALUES ({', '.join(f':{name}' for name in living.keys())})",  # noqa: S608, SIM118
            (over(dict(living), number) for number in range(FINISHED)),
        )
        connection.execute("ANALYZE")
    return made


def over(row: dict[str, Any], number: int) -> dict[str, Any]:
    """The row of a box as that of another, which is over."""
    state = state_of(row)
    assert isinstance(state, Box)
    gone = tuple(replace(each, box=f"b-over-{number}", state="gone") for each in state.resources)
    made = tuple(replace(each, box=f"b-over-{number}", status="made") for each in state.intents)
    ended = replace(
        state,
        id=f"b-over-{number}",
        name=f"x{number}",
        state=BoxState.DELETED,
        ended_at=state.created_at,
        lease=None,
        resources=gone,
        intents=made,
    )
    return row_of(ended)


@contextmanager
def queries(journal: Journal) -> Iterator[list[str]]:
    """What is asked of the journal's file meanwhile, with its values."""
    seen: list[str] = []
    with connection_of(journal) as connection:
        connection.set_trace_callback(seen.append)
    yield seen
    with connection_of(journal) as connection:
        connection.set_trace_callback(None)


def plans_of(journal: Journal, seen: Sequence[str]) -> list[str]:
    """How SQLite answers these queries: its own words, one line a step."""
    with connection_of(journal) as connection:
        return [
            f"{step[3]}  <-  {statement}"
            for statement in seen
            if statement.startswith("SELECT") and "FROM" in statement
            for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]


def test_no_command_goes_through_everything_that_ever_was(bench: Bench) -> None:
    context = bench.context()
    with queries(context.journal) as seen:
        assert [box.id for box in context.journal.boxes(owner=OWNER)] == ["b-1"]
        found = [find_holding(context.journal, OWNER, name, Box) for name in ("x", "b-1", "x7")]
        assert [each.id for each in found[:2]] == ["b-1", "b-1"]
        assert found[2].state is BoxState.DELETED
        check_name(context, "y")
        assert remains(context, context.journal.boxes(owner=OWNER)) == []
        assert settle(context) == []
        assert look(context, owner=OWNER, older_than=timedelta()).finds == ()
    plans = plans_of(context.journal, seen)
    through = [
        step
        for step in plans
        if step.startswith("SCAN") and not any(f"INDEX {name}" in step for name in PARTIAL)
    ]
    assert plans
    assert through == []


def test_of_what_is_over_only_what_is_owed_is_looked_at_again(bench: Bench) -> None:
    """A group that was left, of one of thousands."""
    context = bench.context()
    left = context.journal.box("b-over-77")
    [group, *others] = left.resources
    row = row_of(replace(left, resources=(replace(group, state="delete_asked"), *others)))
    with closing(sqlite3.connect(bench.folder / "journal.db")) as connection, connection:
        connection.execute("UPDATE states SET document = :document, present = :present WHERE id = :id", row)
    calls = len(bench.providers[0].cloud.calls)
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    assert settle(context) == []
    [looked_at] = {call.name for call in bench.providers[0].cloud.calls[calls:] if call.name}
    assert looked_at.startswith("sg-")
    assert len(bench.providers[0].cloud.calls) - calls < 10
