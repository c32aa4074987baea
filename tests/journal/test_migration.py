"""Journals of older versions: migrated whole or not at all, and every promise is kept on them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud.api.client import Client
from gpucloud.config import find_paths, make_private
from gpucloud.costs.spend import charges
from gpucloud.ending.deadline import extend
from gpucloud.ending.discovery import begin, finish
from gpucloud.ending.reconcile import refresh, remains, settle
from gpucloud.ending.recover import adopt_found
from gpucloud.ending.teardown import take_down
from gpucloud.errors import UsageError
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import read
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.sqlite.schema import VERSION
from gpucloud.journal.store import Journal
from gpucloud.resources import Search
from gpucloud_pricing import Market
from gpucloud_pricing.billing import billing_of
from gpucloud_pricing.sqlite_file import connect
from tests.bench import OWNER
from tests.builders import Clock
from tests.journal.older import VERSIONS, a_bench, a_journal
from tests.waiting import PATIENCE_S

each_version = pytest.mark.parametrize("version", VERSIONS)
pytestmark = pytest.mark.files
SCHEMA_CHANGES = ("ALTER", "BEGIN", "COMMIT", "CREATE", "DROP", "PRAGMA")
CONNECT = "gpucloud.journal.sqlite.database.connect"
BETWEEN = 20
"""Of the statements that fill tables, each twentieth is a moment to die at."""


def rows(file: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def shape(file: Path) -> list[tuple[object, ...]]:
    return rows(file, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")


def contents(journal: Journal) -> object:
    over = journal.boxes(owner=OWNER, over=True)
    return over, journal.intents(), journal.resources(present=False), journal.since()


# --- the tables


@each_version
def test_an_older_journal_gets_the_tables_of_a_new_one(version: int, tmp_path: Path) -> None:
    old, new = a_journal(version, tmp_path), tmp_path / "new.db"
    Journal.open(new, Clock())
    Journal.open(old, Clock())
    assert shape(old) == shape(new)
    assert rows(old, "PRAGMA user_version") == rows(new, "PRAGMA user_version") == [(VERSION,)]


@each_version
def test_old_events_stay_as_they_were_written(version: int, tmp_path: Path) -> None:
    file = a_journal(version, tmp_path)
    query = "SELECT seq, at, box, type, data FROM events ORDER BY seq"
    before = rows(file, query)
    journal = Journal.open(file, Clock())
    assert rows(file, query) == before
    assert {row[0] for row in rows(file, "SELECT DISTINCT version FROM events")} == {1}
    for box in journal.boxes(owner=OWNER, over=True):
        stored = journal.history(box.id)
        assert [each.number for each in stored] == list(range(1, box.number + 1))
    before_replay = contents(journal)
    journal.rebuild()
    assert contents(journal) == before_replay


@each_version
def test_a_lease_that_was_renewed_is_kept(version: int, tmp_path: Path) -> None:
    """Renewals are no events: a process that works on a box meanwhile would else seem to be dead."""
    file = a_journal(version, tmp_path)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE boxes SET lease = json_set(lease, '$.beat', '2026-01-05T20:00:00+00:00')")
    left = Journal.open(file, Clock()).box("b-left")
    assert left.lease is not None
    assert left.lease.beat.hour == 20


@each_version
def test_a_process_that_dies_while_it_migrates_leaves_the_old_journal(version: int, tmp_path: Path) -> None:
    """Before any statement: what the next process opens is whole, and the same as without the death."""
    whole = tmp_path / "whole"
    whole.mkdir()
    file = a_journal(version, whole)
    expected, statements = contents(Journal.open(file, Clock())), statements_of(version, tmp_path)
    moments = [
        number
        for number, statement in enumerate(statements, 1)
        if statement.startswith(SCHEMA_CHANGES) or number % BETWEEN == 0
    ]
    assert len(moments) > 30
    for number in moments:
        folder = tmp_path / str(number)
        folder.mkdir()
        file = a_journal(version, folder)
        child = os.fork()
        if not child:
            die_at(file, number)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert rows(file, "PRAGMA integrity_check") == [("ok",)]
        assert rows(file, "PRAGMA user_version") in ([(version,)], [(VERSION,)])
        assert contents(Journal.open(file, Clock())) == expected, statements[number - 1]


def statements_of(version: int, folder: Path) -> list[str]:
    """What a migration does, statement by statement."""
    counted = folder / "counted"
    counted.mkdir()
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CONNECT, lambda path, busy_s: traced(path, seen.append))
        Journal.open(a_journal(version, counted), Clock())
    return seen


def traced(path: Path, see: Callable[[str], object]) -> sqlite3.Connection:
    connection = connect(path)
    connection.set_trace_callback(see)
    return connection


def die_at(file: Path, number: int) -> None:
    """Migrates, and is killed before this statement."""
    left = iter(range(number - 1, -1, -1))

    def see(_: str) -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    pytest.MonkeyPatch().setattr(CONNECT, lambda path, busy_s: traced(path, see))
    try:
        Journal.open(file, Clock())
    finally:
        os._exit(1)


def test_a_journal_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    Journal.open(file, Clock()).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = file.read_bytes()
    with pytest.raises(UsageError, match="newer gpucloud"):
        Journal.open(file, Clock())
    assert file.read_bytes() == before


@each_version
def test_an_old_journal_gets_the_mark_of_the_boxes_that_open_it_first_and_the_other_kind_is_refused(
    version: int, tmp_path: Path
) -> None:
    file = a_journal(version, tmp_path)
    Journal.open(file, Clock(), kind="sandbox").close()
    before = contents(Journal.open(file, Clock(), kind="sandbox"))
    with pytest.raises(UsageError, match="for the sandbox, not for real clouds"):
        Journal.open(file, Clock(), kind="real")
    assert contents(Journal.open(file, Clock())) == before


def test_a_journal_of_the_sandbox_is_not_taken_for_real_boxes_in_its_place(tmp_path: Path) -> None:
    """As where the folder of a sandbox was copied or linked."""
    file = tmp_path / "journal.db"
    assert Client(journal=file, owner="me").list() == []
    with pytest.raises(UsageError, match="for real clouds, not for the sandbox") as caught:
        Client.sandbox(journal=file, owner="me").list()
    assert str(file) in caught.value.message


@each_version
@pytest.mark.parametrize(
    "damage", ["data = '{'", "data = '{}'", "type = 'unheard-of'", 'data = \'{"state": "unheard-of"}\'']
)
def test_a_damaged_event_is_told_and_nothing_is_changed(version: int, damage: str, tmp_path: Path) -> None:
    file = a_journal(version, tmp_path)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE events SET {damage} WHERE seq = 2")  # noqa: S608
    before = shape(file), rows(file, "SELECT * FROM events")
    with pytest.raises(JournalError, match="event 2") as caught:
        Journal.open(file, Clock())
    assert "damaged" in str(caught.value.hint)
    assert (shape(file), rows(file, "SELECT * FROM events")) == before
    assert rows(file, "PRAGMA user_version") == [(version,)]


def test_an_event_of_a_newer_version_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="newer gpucloud"):
        read("released", 3, {})


# --- the command line


@each_version
def test_the_command_line_shows_its_boxes_and_their_costs(version: int, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "GPUCLOUD_HOME": str(tmp_path), "GPUCLOUD_OWNER": OWNER}
    a_journal(version, make_private(find_paths(environment, sandbox=False).state))

    def document(*arguments: str) -> Any:
        command = [sys.executable, "-m", "gpucloud", *arguments, "--json"]
        ran = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=PATIENCE_S)
        return json.loads(ran.stdout)

    listed = document("list", "--all")["boxes"]
    assert {box["name"] for box in listed} >= {"used", "ended", "failed", "replaced", "owed", "left", "lost"}
    shown = document("show", "used")["box"]
    assert (shown["state"], shown["gpu"]["model"], len(shown["nodes"])) == ("ready", "T4", 2)
    assert document("spend")["schema"] == "gpucloud.spend/v1"


# --- the life of its boxes


def by_name(boxes: list[Box]) -> dict[str, Box]:
    return {box.name: box for box in boxes}


@each_version
def test_it_tells_of_its_boxes_what_it_told_before(version: int, tmp_path: Path) -> None:
    context = a_bench(version, tmp_path).context()
    boxes = by_name(context.journal.boxes(owner=OWNER, over=True))
    assert {name: str(box.state) for name, box in boxes.items()} == {
        "used": "ready",
        "ended": "deleted",
        "failed": "failed",
        "replaced": "ready",
        "owed": "deleting",
        "left": "bootstrapping",
        "lost": "deleting",
    }
    used = boxes["used"]
    assert (used.run_id, used.cloud, used.price_per_hour, used.currency) == ("r-1", "aws", Decimal(1), "USD")
    assert [node.instance_id[-2:] for node in used.nodes] == ["02", "03"]
    assert used.measured is not None
    assert (used.measured.driver, used.measured.boot_seconds) == ("580.1", {"driver": 40.5})
    assert boxes["replaced"].replaced == "a GPU is missing"
    with Client(journal=tmp_path / "journal.db", owner=OWNER) as client:
        shown = client.get("used")
    assert shown.gpu is not None
    assert (shown.instance_type, shown.gpu.model) == ("g4dn.xlarge", "T4")
    assert sorted(box.name for box in remains(context, context.journal.boxes(owner=OWNER))) == [
        "left",
        "lost",
        "owed",
    ]


@each_version
def test_the_next_changing_command_ends_what_remains_and_nothing_else(version: int, tmp_path: Path) -> None:
    bench = a_bench(version, tmp_path)
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds() + 1)
    for _ in range(2):
        assert settle(bench.context(), budget_s=60) == []
        bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds() + 1)
    boxes = by_name(bench.context().journal.boxes(owner=OWNER, over=True))
    assert {boxes[name].state for name in ("left", "lost")} == {BoxState.FAILED, BoxState.DELETED}
    assert boxes["owed"].state is BoxState.DELETED
    assert bench.machines() == 3, "two nodes of one box, and one of another"


@each_version
def test_its_boxes_are_looked_at_and_ended(version: int, tmp_path: Path) -> None:
    bench = a_bench(version, tmp_path)
    context = bench.context()
    assert refresh(context, context.journal.box("b-used")).state is BoxState.READY
    for box in context.journal.boxes(owner=OWNER):
        bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds() + 1)
        taken = context.take(box, by_force=True)
        assert taken is not None
        assert take_down(context, taken, budget_s=60).state is BoxState.DELETED
    assert (bench.billed(), bench.machines()) == ([], 0)
    assert context.journal.boxes(owner=OWNER) == []


@each_version
def test_the_end_of_its_boxes_is_moved(version: int, tmp_path: Path) -> None:
    """The event of today's version stands beside those of its own, also when all are read again."""
    context = a_bench(version, tmp_path).context()
    box = context.take(context.journal.box("b-used"), by_force=True)
    assert box is not None
    later = context.clock() + timedelta(days=3)
    assert extend(context, box, (), later).expires_at == later
    context.journal.rebuild()
    moved = context.journal.box("b-used")
    assert (moved.expires_at, moved.state, moved.nodes) == (later, BoxState.READY, box.nodes)


@each_version
def test_what_its_clouds_hold_is_known_and_is_not_taken_in_again(version: int, tmp_path: Path) -> None:
    context = a_bench(version, tmp_path).context()
    survey = finish(context, begin(context, Search(owner=OWNER)))
    assert survey.resources
    assert adopt_found(context, survey, Market.load()) == ([], [])


@each_version
def test_what_its_boxes_have_cost_is_known_node_by_node(version: int, tmp_path: Path) -> None:
    context = a_bench(version, tmp_path).context()
    boxes = by_name(context.journal.boxes(owner=OWNER, over=True))
    now = context.clock()

    def compute(name: str) -> Decimal:
        found = [
            each.amount for each in charges(boxes[name], None, now, billing_of) if each.part == "compute"
        ]
        return sum(filter(None, found), Decimal(0))

    hours = {
        name: Decimal(str((now - (box.started_at or now)).total_seconds())) / 3600
        for name, box in boxes.items()
    }
    assert compute("used") == pytest.approx(2 * hours["used"]), "two nodes at a dollar"
    assert compute("left") == pytest.approx(hours["left"])
    ended = boxes["ended"]
    assert ended.ended_at is not None
    assert ended.started_at is not None
    assert [each.end for each in ended.usage if each.end is None] == []
    lasted = Decimal(str((ended.ended_at - ended.started_at).total_seconds())) / 3600
    assert compute("ended") == pytest.approx(lasted, rel=Decimal("0.01"))
    assert compute("failed") == 0
    machines = {each.resource for each in boxes["replaced"].usage}
    assert len(machines) == 2, "the one that was not kept has cost something too"
    assert now - ended.ended_at < timedelta(days=1)
