"""Whatever happens between a command and the server, nothing is billed that nobody knows of."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg import errors

from gpucloud.ending.reconcile import settle
from gpucloud.ending.sweep import look
from gpucloud.ending.teardown import take_down
from gpucloud.errors import GpucloudError
from gpucloud.journal.errors import JournalError, PendingError
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.journal.postgresql import server
from gpucloud.journal.postgresql.address import read_address
from gpucloud.journal.postgresql.migration import migrate
from gpucloud.journal.postgresql.schema import STEPS
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import verify
from gpucloud.purchase.failover import launch
from gpucloud.resources import Machine, Request, ResourceKind, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import Event
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.chaos.crowd import END_S, OPERATIONS, PROCESSES, Crowd
from tests.forked import ForkServer
from tests.journal.test_store import a_box, clock
from tests.journals import POOLER, URL, a_server, administer, own_folder, psql, url_of, with_schema
from tests.memory import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, MemoryProvider
from tests.wire import Wire


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch, url: str) -> Iterator[Wire]:
    """All journals of the test are reached by this wire."""
    server_url = url.partition("?")[0]
    port = re.search(r":(\d+)/", server_url)
    assert port
    with Wire(int(port[1])) as made:
        monkeypatch.setenv(URL, server_url.replace(port[0], f":{made.port}/"))
        monkeypatch.setattr(server, "CONNECT_S", 2)
        yield made


def a_bench(folder: Path, cloud: str) -> Bench:
    folder.mkdir()
    clock = Clock()
    temperament = TOKEN_ATOMIC if cloud == "aws" else BY_NAME_LONG_RUNNING
    return Bench(folder, clock, [MemoryProvider.named(cloud, temperament=temperament, clock=clock)])


def a_life(bench: Bench, context: Context) -> None:
    """A box is launched, seen, and ended."""
    box = launch(context, bench.purchase())
    assert bench.machines() == 1
    context.journal.observe(context.journal.box(box.id), Facts(replaced="seen"))
    take_down(context, context.journal.box(box.id))


@pytest.mark.parametrize(("cloud", "fate"), [("aws", "cut"), ("aws", "deaf"), ("azure", "deaf")])
def test_a_life_is_whole_whichever_message_to_the_journal_is_lost(
    cloud: str, fate: str, wire: Wire, tmp_path: Path
) -> None:
    n, last = 0, 1
    while n < last:
        n += 1
        bench = a_bench(tmp_path / f"{n}", cloud)
        context = bench.context()
        begun = wire.exchanges

        def strike(number: int, at: int = begun + n) -> str | None:
            return fate if number == at else None

        wire.on_exchange = strike
        a_life(bench, context)
        wire.on_exchange, last = (lambda _: None), wire.exchanges - begun
        assert bench.billed() == [], n
        assert not verify(bench.context().journal).differences, n
    assert n > 20


@pytest.mark.parametrize("cloud", ["aws", "azure"])
def test_what_a_silent_journal_leaves_behind_is_found_and_ended(
    cloud: str, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the n-th message on nothing comes through; the command ends; another process finds the rest."""
    monkeypatch.setattr(server, "PATIENCE_S", 0.0)
    n, failed = 0, True
    while failed:
        n += 3
        bench = a_bench(tmp_path / f"{n}", cloud)
        context = bench.context()
        begun = wire.exchanges

        def strike(number: int, at: int = begun + n) -> str | None:
            return "cut" if number >= at else None

        wire.on_exchange = strike
        failed = False
        try:
            a_life(bench, context)
        except GpucloudError:
            failed = True
        wire.on_exchange = lambda _: None
        bench.clock.sleep(2 * CONSISTENCY_WINDOW.total_seconds())
        context = bench.context()
        for _ in range(3):
            with suppress(GpucloudError):
                settle(context)
            bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
        finds = look(context, owner=OWNER, older_than=timedelta()).finds
        unknown = [each for each in finds if each.resource.state is not State.STOPPING]
        living = [box for box in context.journal.boxes(owner=OWNER) if box.state is not BoxState.READY]
        assert (bench.billed(), unknown, living) == ([], [], []), n
        assert not verify(context.journal).differences, n


def test_a_launch_that_loses_the_journal_after_its_create_call_ends_the_machine_by_itself(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows where it asked for one, though it can read that nowhere."""
    monkeypatch.setattr(server, "PATIENCE_S", 0.0)
    bench = a_bench(tmp_path / "home", "aws")

    class LosesIt(MemoryProvider):
        def create(self, request: Request, /) -> Sequence[Machine]:
            machines = super().create(request)
            wire.on_exchange = lambda _: "cut"
            return machines

    bench.kind = LosesIt
    spool = tmp_path / "pending-events.jsonl"

    def journal() -> Journal:
        url = url_of(bench.folder)
        return Journal.connect(url, bench.clock, kind="real", lease_clock=bench.clock, spool=spool)

    with pytest.raises(PendingError, match="is kept in") as caught:
        launch(replace(bench.context(), journal=journal()), bench.purchase())
    assert (caught.value.exit_code, spool.stat().st_mode & 0o777) == (8, 0o600)
    assert (bench.billed(), len(bench.providers[0].cloud.ledger) > 0) == ([], True), bench.lines
    wire.on_exchange = lambda _: None
    told = [journal().history("b-1") for _ in range(2)]
    assert told[0] == told[1], "it is told once"
    assert "resolved" in [each.event.type for each in told[0]]
    assert spool.read_bytes() == b""


# --- many at once


@pytest.mark.parametrize("lock", [True, False])
def test_the_lock_of_a_box_orders_its_writers_and_without_it_they_are_not(lock: bool, url: str) -> None:
    """Each takes 20 ms between looking and writing."""
    think(url, 0.02, lock=lock)
    box = a_box(Journal.connect(url, clock, kind="real"))

    def observe() -> None:
        journal = Journal.connect(url, clock, kind="real")
        for n in range(10):
            assert journal.observe(box, Facts(replaced=f"{n}"))
        journal.close()

    writers = [threading.Thread(target=observe) for _ in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    numbers = [each.number for each in Journal.connect(url, clock, kind="real").history(box.id)]
    assert (numbers == list(range(1, 42))) is lock


def think(url: str, seconds: float, *, lock: bool) -> None:
    """The server takes its time between looking and writing. What protects besides the lock is taken away."""
    [*_, function] = [each for step in STEPS for each in step if "CREATE FUNCTION append" in each]
    function = function.replace("{schema}", url.partition("schema=")[2])
    slow = function.replace(
        "    INSERT INTO owners", f"    PERFORM pg_sleep({seconds});\n    INSERT INTO owners"
    )
    if not lock:
        slow = slow.replace(" ORDER BY id FOR UPDATE", "")
    psql(url, slow.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
    psql(url, "ALTER TABLE events DROP CONSTRAINT events_box_number_key")


@pytest.mark.timeout(END_S + 60)
@pytest.mark.parametrize("lock", [True, False])
def test_a_crowd_that_is_stopped_and_killed_loses_nothing_and_doubles_nothing(
    lock: bool, forks: ForkServer, url: str, tmp_path: Path
) -> None:
    """Of the operations, each in a process of many: 2 % are killed, 5 % stopped until their leases are over.

    Without the lock of a box the same is lost and doubled.
    """
    processes, operations = (PROCESSES, OPERATIONS) if lock else (8, 20)
    if not lock:
        think(url, 0.005, lock=False)
    seed = f"{random.randrange(1 << 32):08x}"  # noqa: S311
    crowd = Crowd(forks, tmp_path, {URL: os.environ[URL]})
    said = crowd.run(seed=seed, processes=processes, operations=operations, killed=0.02, stopped=0.05)
    wrong = crowd.wrong(Journal.connect(url, clock, kind="real"))
    assert bool(wrong) is not lock, (seed, wrong)
    assert not said or not lock, (seed, said)


# --- what a server can come to


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path: Path) -> None:
    """Whatever could not be written, its launch ends the machine; once there is room, all is as it was."""
    with a_server() as own, a_small_disk(16) as disk:
        administer(
            own.url, f"CREATE TABLESPACE small LOCATION '{disk}'", "CREATE DATABASE lab TABLESPACE small"
        )
        lab = own.url.replace("/postgres", "/lab")
        migrate(read_address(lab), kind="real")
        bench = Bench(tmp_path, Clock(), [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC)])
        context = replace(bench.context(), journal=Journal.connect(lab, bench.clock, kind="real"))
        ballast(lab)
        said: list[GpucloudError] = []
        lives = itertools.count(1)
        while len(said) < 3:  # there is room for some rows in pages that are there
            number = next(lives)
            try:
                box = launch(context, bench.purchase(box=f"b-{number}", name=f"x-{number}"))
                take_down(context, box)
            except GpucloudError as error:
                said.append(error)
        assert all("No space left" in str(each) and "free some" in str(each.hint) for each in said), said
        psql(lab, "DROP TABLE ballast")
        administer(lab, "VACUUM")
        bench.clock.sleep(2 * CONSISTENCY_WINDOW.total_seconds())
        for box in context.journal.boxes(owner=OWNER):
            take_down(context, box)
        assert bench.billed() == []
        assert not verify(context.journal).differences


@contextmanager
def a_small_disk(mib: int) -> Iterator[Path]:
    """A disk of its own for a server, with so much room."""
    disk = own_folder("gpucloud-disk-")
    options = f"size={mib}m,uid={disk.stat().st_uid},mode=0700"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=False)
    try:
        if mounted.returncode:
            pytest.skip("no disk can be mounted here")
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=False)
        disk.rmdir()


def ballast(url: str) -> None:
    """Fills the disk of a database."""
    psql(url, "CREATE TABLE ballast (x text)")
    for size in (200_000, 20_000, 2000, 200, 20):
        with suppress(errors.DiskFull):
            psql(url, "INSERT INTO ballast SELECT repeat('x', 40) FROM generate_series(1, %s)", [size])


def test_a_server_that_by_default_only_reads_is_written_to_all_the_same(
    url: str, pytestconfig: pytest.Config
) -> None:
    """As some hosts set it when a disk fills up: what may still be billed is worth the room."""
    if pytestconfig.getoption("--journal") == POOLER:
        pytest.skip("pgbouncer takes no options of a session")
    box = a_box(Journal.connect(url, clock, kind="real"))
    own = f"{url}&options=-c%20default_transaction_read_only=on"
    journal = Journal.connect(own, clock, kind="real")
    assert journal.observe(box, Facts(replaced="x"))


@pytest.mark.parametrize("lost", ["the box", "its events"])
def test_a_replica_that_has_lost_the_last_events_is_named_and_nothing_is_left_running(
    lost: str, tmp_path: Path
) -> None:
    """While a machine is made, the server fails over to an older copy of its files."""
    with a_server() as own:
        url = with_schema(own.url, "gpucloud")
        migrate(read_address(url), kind="real")
        bench = a_bench(tmp_path / "home", "aws")
        data, older = own.folder / "data", own.folder / "older"

        def copy(source: Path, target: Path) -> None:
            own.stop()
            subprocess.run(["rm", "-rf", target], check=True)
            subprocess.run(["cp", "-a", source, target], check=True)  # they stay the server's
            own.start()

        class FailsOver(MemoryProvider):
            def create(self, request: Request, /) -> Sequence[Machine]:
                machines = super().create(request)
                copy(older, data)
                return machines

        def tell(event: Event) -> None:
            if not older.exists():  # the box was planned, and nothing more
                copy(data, older)

        bench.kind = FailsOver
        journal = Journal.connect(url, bench.clock, kind="real")
        context = replace(bench.context(), journal=journal, emit=tell)
        if lost == "the box":
            copy(data, older)
        with pytest.raises(JournalError, match="an older copy of it is in use") as caught:
            launch(context, bench.purchase())
        assert "gpucloud recover" in str(caught.value.hint)
        born = [each for each in bench.providers[0].cloud.ledger if each.ref.kind is ResourceKind.INSTANCE]
        assert (bench.billed(), len(born)) == ([], 1)
