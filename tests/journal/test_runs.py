"""Runs in the journal: one process works on each, and only that one plans boxes for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.journal.errors import RunLivesError, StaleWriterError
from gpucloud.journal.events import RunDetached, RunEnded, RunFetching, RunLost
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import Claim, Lease
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import (
    AttemptPlace,
    AttemptRecord,
    Failure,
    Loss,
    RunState,
    Slots,
    Work,
)
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import verify
from tests.builders import START
from tests.journals import open_journal

WORK = Work(
    spec={"gpu": "T4", "env": {"A": None}},
    command=("sh", "-c", "exit 3"),
    restarts=3,
    reasons=(Loss.INTERRUPTION, Loss.CAPACITY),
    fetch=(("out", "."),),
)
LEASE = Lease(host="h", boot="b", pid=1, started=1, beat=START)
PLACE = AttemptPlace(cloud="aws", region="r", zone="z", instance_type="t", purchase="spot")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return open_journal(tmp_path, lambda: START)


def a_run(journal: Journal, id: str = "run-1", claim: Claim = Claim.HELD) -> Run:  # noqa: A002
    return journal.begin_run(
        id=id,
        run_id="nightly",
        owner="me",
        expires_at=None,
        work=WORK,
        lease=LEASE,
        claim=lambda _: claim,
    )


def an_attempt(journal: Journal, run: Run, id: str = "b-1") -> Box:  # noqa: A002
    values: dict[str, Any] = {"owner": "me", "run_id": "nightly", "op": "o", "expires_at": None}
    return journal.plan(Box, id=id, name=id, facts=Facts(), lease=LEASE, run=run, **values)


def a_loss(journal: Journal, run: Run) -> RunLost:
    under_way = journal.run(run.id).attempts[-1]
    lost = replace(under_way, loss=Loss.INTERRUPTION, lost_at=START, message="taken back", place=PLACE)
    return RunLost(attempt=lost, restart_at=START)


def a_history(journal: Journal) -> Run:
    """A run that was interrupted once, and whose second box is there."""
    run = a_run(journal)
    an_attempt(journal, run)
    journal.write(run, RunDetached())
    journal.write(run, a_loss(journal, run))
    an_attempt(journal, run, "b-2")
    return journal.run(run.id)


def test_a_run_has_its_work_and_its_attempts_after_a_replay_too(journal: Journal) -> None:
    run = a_history(journal)
    assert (run.state, run.work, run.detached, run.box) == (RunState.RUNNING, WORK, True, "b-2")
    first, second = run.attempts
    assert (first.box, first.loss, first.place) == ("b-1", Loss.INTERRUPTION, PLACE)
    assert second == AttemptRecord(box="b-2", at=START)
    assert [each.number for each in journal.history(run.id)] == list(range(1, run.number + 1))
    journal.release(run)
    before = journal.runs(owner="me")
    assert verify(journal).differences == ()
    assert journal.runs(owner="me") == before
    assert journal.run(run.id).lease is None


def test_who_has_lost_a_run_plans_no_box_for_it_and_writes_nothing_of_it(journal: Journal) -> None:
    """A process that was paused beyond its lease goes on with what it knew."""
    paused = a_run(journal)
    taken = journal.take_run(paused.id, LEASE, claim=lambda _: Claim.SILENT)
    assert taken is not None
    with pytest.raises(StaleWriterError, match="run 'nightly'"):
        an_attempt(journal, paused)
    with pytest.raises(KeyError):
        journal.box("b-1")
    for event in (RunDetached(), RunEnded(state=RunState.CANCELLED)):
        with pytest.raises(StaleWriterError):
            journal.write(paused, event)
    with pytest.raises(StaleWriterError):
        journal.held_run(paused)
    an_attempt(journal, taken)
    assert journal.run(paused.id).box == "b-1"


def test_a_run_whose_holder_lives_is_left_alone_unless_by_force(journal: Journal) -> None:
    run = a_run(journal)
    assert journal.take_run(run.id, LEASE, claim=lambda _: Claim.HELD) is None
    taken = journal.take_run(run.id, LEASE, claim=lambda _: Claim.HELD, by_force=True)
    assert taken is not None
    assert taken.epoch == run.epoch + 1


def test_a_run_that_is_over_stays_so(journal: Journal) -> None:
    run = a_history(journal)
    journal.write(run, RunEnded(state=RunState.ENDED, exit_code=4))
    over = journal.run(run.id)
    assert (over.state, over.exit_code, over.ended_at, over.lease) == (RunState.ENDED, 4, START, None)
    assert journal.runs(owner="me") == []
    assert journal.runs(owner="me", over=True) == [over]
    assert journal.take_run(run.id, LEASE, claim=lambda _: Claim.FREE) is None
    with pytest.raises(ValueError, match="is over"):
        an_attempt(journal, run, "b-3")
    with pytest.raises(KeyError):
        journal.box("b-3")


def test_a_command_that_has_ended_is_never_begun_again(journal: Journal) -> None:
    """Whatever happens to its box: its files are fetched, or lost, and the run is over."""
    run = a_history(journal)
    journal.write(run, RunFetching(exit_code=0))
    for again in (a_loss(journal, run), RunFetching(exit_code=1)):
        with pytest.raises(ValueError, match="has ended"):
            journal.write(run, again)
    with pytest.raises(ValueError, match="has ended"):
        an_attempt(journal, run, "b-3")
    assert (journal.run(run.id).state, journal.run(run.id).exit_code) == (RunState.FETCHING, 0)


def test_an_id_is_used_again_once_its_run_is_over(journal: Journal) -> None:
    """Two at once are refused; of one whose process is dead nothing is left to wait for."""
    run = a_run(journal)
    with pytest.raises(RunLivesError, match="'nightly' exists already"):
        a_run(journal, "run-2", Claim.HELD)
    again = a_run(journal, "run-2", Claim.SILENT)
    assert journal.run(run.id).failure == Failure(
        error_class="deserted", message="the process that ran it has ended"
    )
    with pytest.raises(StaleWriterError):
        an_attempt(journal, run)
    assert [each.id for each in journal.runs_named("me", "nightly")] == ["run-1", "run-2"]
    journal.write(again, RunDetached())
    with pytest.raises(RunLivesError):  # it goes on without its process
        a_run(journal, "run-3", Claim.FREE)


def test_the_lease_of_a_run_is_renewed_as_that_of_a_box_is(tmp_path: Path) -> None:
    now = START.replace(hour=13)
    journal = Journal.open(tmp_path / "journal.db", lambda: START, lease_clock=lambda: now)
    run = a_run(journal)
    box = an_attempt(journal, run)
    journal.renew()
    leases = (journal.run(run.id).lease, journal.box(box.id).lease)
    assert [lease and lease.beat for lease in leases] == [now, now]


def a_wish(*names: str) -> Work:
    slots = Slots(cluster="lab", node_class="t4", names=names)
    return Work(spec={"gpu": "T4"}, command="", slots=slots)


def test_a_wish_for_slots_is_a_run_that_goes_on_without_its_process(journal: Journal) -> None:
    [wish] = journal.want(owner="me", works={"run-1": a_wish("lab-t4-1", "lab-t4-2")}, lease=LEASE)
    assert (wish.run_id, wish.detached, wish.work.slots) == (
        "lab-t4-1",
        True,
        Slots(cluster="lab", node_class="t4", names=("lab-t4-1", "lab-t4-2")),
    )
    assert wish.lease is None, "whoever launches takes it"
    before = journal.runs(owner="me")
    assert verify(journal).differences == ()
    assert journal.runs(owner="me") == before


def test_no_slot_is_wanted_twice_alone_or_in_a_gang(journal: Journal) -> None:
    """Of two processes, one writes the wish; the other one finds it."""
    first = {"run-1": a_wish("lab-t4-1", "lab-t4-2"), "run-2": a_wish("lab-t4-3")}
    journal.want(owner="me", works=first, lease=LEASE)
    second = {
        "run-3": a_wish("lab-t4-2"),
        "run-4": a_wish("lab-t4-4", "lab-t4-3"),
        "run-5": a_wish("lab-t4-4"),
    }
    assert [wish.id for wish in journal.want(owner="me", works=second, lease=LEASE)] == ["run-5"]
    assert [run.id for run in journal.runs(owner="me")] == ["run-1", "run-2", "run-5"]
    journal.write(journal.run("run-1"), RunEnded(state=RunState.ENDED))
    again = journal.want(owner="me", works={"run-6": a_wish("lab-t4-2")}, lease=LEASE)
    assert [wish.id for wish in again] == ["run-6"]


def test_what_an_engine_says_of_its_slots_is_kept_whoever_holds_the_wish(journal: Journal) -> None:
    """Ray's tags: they are there for its next head."""
    slots = Slots(cluster="lab", node_class="t4", names=("lab-t4-1",), labels={"type": "t4", "status": "new"})
    work = Work(spec={"gpu": "T4"}, command="", slots=slots)
    journal.want(owner="me", works={"run-1": work}, lease=LEASE)
    held = journal.take_run("run-1", LEASE, claim=lambda _: Claim.FREE)
    assert held is not None
    assert journal.label("run-1", {"status": "up"})
    said = {"type": "t4", "status": "up"}
    assert verify(journal).differences == ()
    [wish] = journal.runs(owner="me")
    assert wish.work.slots == replace(slots, labels=said)
    journal.write(held, RunEnded(state=RunState.ENDED))
    assert not journal.label("run-1", {"status": "down"}), "it is over"
    assert journal.run("run-1").work.slots == replace(slots, labels=said)


def test_the_runs_that_ended_lately_are_read_with_those_that_go_on(tmp_path: Path) -> None:
    now = [START]
    journal = Journal.open(tmp_path / "journal.db", lambda: now[0])
    for hour in (0, 1, 2):
        now[0] = START + timedelta(hours=hour)
        [wish] = journal.want(owner="me", works={f"run-{hour}": a_wish("lab-t4-1")}, lease=LEASE)
        if hour < 2:
            journal.write(wish, RunEnded(state=RunState.ENDED))
    found = journal.runs(owner="me", over=True, since=START + timedelta(minutes=30))
    assert [run.id for run in found] == ["run-1", "run-2"]
    assert len(journal.runs(owner="me", over=True)) == 3
