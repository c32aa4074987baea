"""A journal of years is no slower than a new one: commands read what lives, and by an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud.boxes.connection import find_box
from gpucloud.ending.reconcile import remains, settle
from gpucloud.ending.sweep import look
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.journal.store import Journal
from gpucloud.purchase.failover import check_name
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.ending.test_reconcile import ready
from tests.journals import connection_of
from tests.memory import TOKEN_ATOMIC, MemoryProvider

pytestmark = pytest.mark.files
FINISHED = 3000
PARTIAL = ("living_boxes", "one_living_box_per_name", "present_resources", "unresolved_intents")
"""The indexes that hold only what is not over: to go through them is to read what matters."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A journal with one box that lives and thousands that are over, each with a thing and an intent."""
    clock = Clock()
    made = Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])
    ready(made)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection, connection:
        for table, changes in (
            (
                "boxes",
                {"id": "'b-over-' || n", "name": "'x' || n", "state": "'deleted'", "ended_at": "created_at"},
            ),
            ("resources", {"n": "1000 + number.n", "box": "'b-over-' || number.n", "state": "'gone'"}),
            ("intents", {"id": "'o-' || n", "box": "'b-over-' || n", "status": "'made'"}),
            ("nodes", {"box": "'b-over-' || number.n"}),
            ("usage", {"n": "1000 + number.n", "box": "'b-over-' || number.n"}),
        ):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(changes.get(column, f"one.{column}") for column in columns)
            numbers = f"SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {FINISHED}"  # noqa: S608
            connection.execute(
                f"WITH RECURSIVE number(n) AS ({numbers})"  # noqa: S608
                f" INSERT INTO {table} SELECT {values} FROM number, (SELECT * FROM {table} LIMIT 1) AS one"
            )
        connection.execute("ANALYZE")
    return made


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
        assert find_box(context.journal, OWNER, "x").id == find_box(context.journal, OWNER, "b-1").id == "b-1"
        assert find_box(context.journal, OWNER, "x7").state is BoxState.DELETED
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
    with closing(sqlite3.connect(bench.folder / "journal.db")) as connection, connection:
        connection.execute("UPDATE resources SET state = 'delete_asked' WHERE box = 'b-over-77'")
    calls = len(bench.providers[0].cloud.calls)
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    assert settle(context) == []
    [looked_at] = {call.name for call in bench.providers[0].cloud.calls[calls:] if call.name}
    assert looked_at.startswith("sg-")
    assert len(bench.providers[0].cloud.calls) - calls < 10
