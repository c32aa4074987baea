"""Whatever happens between a command and the server, nothing is billed that nobody knows of."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud.boxes.launch import launch
from gpucloud.boxes.teardown import take_down
from gpucloud.errors import GpucloudError
from gpucloud.inventory.reconcile import settle
from gpucloud.inventory.sweep import look
from gpucloud.journal.errors import PendingError
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.journal.postgresql import server
from gpucloud.journal.postgresql.schema import STEPS
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import verify
from gpucloud.resources import Machine, Request, State
from gpucloud.runtime.context import Context
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.chaos.crowd import SHARED
from tests.forked import ForkServer
from tests.journal.test_store import a_box, clock
from tests.journals import URL, psql, url_of
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
    box = launch(context, bench.terms(), bench.offers())
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
        launch(replace(bench.context(), journal=journal()), bench.terms(), bench.offers())
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
    """Each takes 20 ms between looking and writing. What protects besides the lock is taken away."""
    [*_, function] = [each for step in STEPS for each in step if "FUNCTION append" in each]
    slow = function.replace("    INSERT INTO owners", "    PERFORM pg_sleep(0.02);\n    INSERT INTO owners")
    if not lock:
        slow = slow.replace(" ORDER BY id FOR UPDATE", "")
    psql(url, slow.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
    psql(url, "ALTER TABLE events DROP CONSTRAINT events_box_number_key")
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


def test_a_crowd_that_is_stopped_and_killed_loses_nothing_and_doubles_nothing(
    forks: ForkServer, url: str, tmp_path: Path
) -> None:
    """Whoever is stopped in the middle of something keeps nobody waiting, and finds its turn gone."""
    chance = random.Random(4)  # noqa: S311
    variables = {"HOME": str(tmp_path), URL: os.environ[URL]}
    crowd = [
        forks.start(
            [str(tmp_path), str(number), "60", "seed"],
            environment=variables,
            folder=str(tmp_path),
            main="tests.chaos.crowd:main",
        )
        for number in range(8)
    ]
    for round_ in range(30):
        victim = chance.choice(crowd)
        if victim.poll() is None:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            victim.send_signal(signal.SIGKILL if round_ in {10, 20} else signal.SIGCONT)
    ended = [(process.communicate(timeout=200), process.wait()) for process in crowd]
    assert all(said == ("", "") and code in {0, -9} for said, code in ended), ended
    journal = Journal.connect(url, clock, kind="real")
    assert not verify(journal).differences
    assert len([box for box in journal.boxes(owner="u") if box.name == SHARED]) <= 1
    events, _ = journal.since(most=100_000)
    planned = [each.box for each in events if each.event.type == "planned"]
    assert len(planned) > 20
    assert sorted(planned) == [box.id for box in journal.boxes(owner="u", over=True)]
    numbers = Counter((each.box, each.number) for each in events)
    assert set(numbers.values()) == {1}
