"""The journal: what is written survives, what is refused changes nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud.errors import UsageError
from gpucloud.journal.errors import NameTakenError, StaleWriterError
from gpucloud.journal.events import (
    Extended,
    Gone,
    GoneOnce,
    Hashed,
    Intended,
    Made,
    Making,
    Resolved,
    Seen,
    StateChanged,
    named,
)
from gpucloud.journal.facts import Facts, NamedRef, Node, Price, SnapshotFacts, VolumeFacts
from gpucloud.journal.leases import this_process
from gpucloud.journal.lifecycle import BoxState, Claim, Lease
from gpucloud.journal.records import Appended, Box, Holding, NewEvent, Snapshot, Volume
from gpucloud.journal.sqlite.names import box_names, volume_names
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import verify
from gpucloud.resources import ResourceKind, State, Tags
from tests.builders import a_ref
from tests.journals import URL, connection_of, open_journal

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def clock() -> datetime:
    return NOW


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return open_journal(tmp_path, clock)


def a_lease(**change: Any) -> Lease:
    return Lease(**{"host": "h", "boot": "b", "pid": 1, "started": 1, "beat": NOW, **change})


def a_box(journal: Journal, name: str = "x", id: str = "b-1") -> Box:  # noqa: A002
    return journal.plan(
        Box,
        id=id,
        name=name,
        owner="me",
        run_id=None,
        op="op-1",
        expires_at=None,
        facts=Facts(),
        lease=a_lease(),
    )


def a_group(id: str = "sg-1") -> NamedRef:  # noqa: A002
    return named(a_ref(kind=ResourceKind.GROUP, id=id), "n")


def intended(n: int = 1) -> Intended:
    values: dict[str, Any] = {
        "intent": f"op-1.{n}",
        "op": "op-1",
        "cloud": "aws",
        "account": "1",
        "region": "r",
        "zone": "z",
        "token": f"t{n}",
        "name": "n",
        "facts": Facts(),
    }
    return Intended(**values)


def test_a_box_is_there_after_the_process_is_killed(tmp_path: Path) -> None:
    """What was planned is on disk: another process reads it after a kill -9."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); from tests.journal.test_store import *;"
        "a_box(open_journal(Path(sys.argv[1]), clock)); os.kill(os.getpid(), 9)"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), root], check=False, cwd=root)
    assert done.returncode == -9
    assert [box.name for box in open_journal(tmp_path, clock).boxes(owner="me")] == ["x"]


def test_a_living_name_is_taken_and_a_dead_one_is_free(journal: Journal) -> None:
    """One living box per owner and name, whatever happened to earlier ones."""
    box = a_box(journal)
    with pytest.raises(NameTakenError, match="'x' exists already"):
        a_box(journal, id="b-2")
    journal.write(box, StateChanged(state=BoxState.FAILED))
    assert a_box(journal, id="b-2").name == "x"


def test_names_of_other_owners_do_not_matter(journal: Journal) -> None:
    """Uniqueness is per owner."""
    a_box(journal)
    journal.plan(
        Box,
        id="b-2",
        name="x",
        owner="you",
        run_id=None,
        op="o",
        expires_at=None,
        facts=Facts(),
        lease=a_lease(),
    )
    assert [box.id for box in journal.boxes(owner="me")] == ["b-1"]


def test_whoever_does_something_with_a_box_tells_so_without_holding_it(journal: Journal) -> None:
    box = a_box(journal)
    assert journal.take(box, a_lease(pid=2), claim=lambda _: Claim.FREE) is not None
    journal.tell(box, Facts(host_keys=("k", ""), guests=("203.0.113.7/32",)))
    now = journal.box(box.id)
    assert (now.host_keys, now.guests) == (("k", ""), ("203.0.113.7/32",))


def test_a_writer_that_was_overtaken_is_refused(journal: Journal) -> None:
    """After another process took the box, nothing of the first one's is written."""
    box = a_box(journal)
    taken = journal.take(box, a_lease(pid=2), claim=lambda lease: Claim.FREE)
    assert taken is not None
    with pytest.raises(StaleWriterError):
        journal.write(box, StateChanged(state=BoxState.FAILED))
    assert journal.box(box.id).state is BoxState.PLANNED
    journal.write(taken, StateChanged(state=BoxState.FAILED))


def test_who_has_lost_a_box_plans_no_other_one_in_its_place(journal: Journal) -> None:
    """A process that was paused beyond its lease goes on with what it knew; who holds the box replaces it."""

    def successor(of: Box, id: str) -> Box:  # noqa: A002
        return journal.plan(
            Box,
            id=id,
            name=id,
            owner="me",
            run_id=None,
            op="o",
            expires_at=None,
            facts=Facts(replaces=of.id),
            lease=a_lease(),
            instead_of=of,
        )

    paused = a_box(journal)
    taken = journal.take(paused, a_lease(pid=2), claim=lambda _: Claim.SILENT)
    assert taken is not None
    with pytest.raises(StaleWriterError):
        successor(paused, "b-2")
    with pytest.raises(KeyError):
        journal.box("b-2")
    first, second = successor(taken, "b-3"), successor(taken, "b-4")
    assert (first.replaces, second.replaces) == (paused.id, paused.id)
    assert verify(journal).differences == ()
    assert journal.box(paused.id).successors == ("b-3", "b-4")


def test_a_live_lease_is_not_taken(journal: Journal) -> None:
    """The one who asks decides by the lease it is shown."""
    box = a_box(journal)
    shown: list[Lease | None] = []

    def refuse(lease: Lease | None) -> Claim:
        shown.append(lease)
        return Claim.HELD

    assert journal.take(box, a_lease(pid=2), claim=refuse) is None
    assert {*shown} == {a_lease()}, "asked as often as the change is made"
    assert journal.box(box.id).epoch == box.epoch


def test_replaying_the_events_gives_the_same_tables(journal: Journal) -> None:
    """The tables are a projection: nothing is in them that the events do not say."""
    box = a_box(journal)
    journal.write(box, intended())
    journal.write(box, Making(resource=a_group("")))
    journal.write(box, Made(resource=a_group()))
    journal.write(box, Hashed(intent="op-1.1", request_hash="h"))
    instance = named(a_ref(id="i-1"), "n")
    journal.write(
        box,
        Resolved(intent="op-1.1", status="made", resources=(instance,), started_at=NOW),
    )
    journal.write(box, StateChanged(state=BoxState.BOOTSTRAPPING))
    journal.write(box, StateChanged(state=BoxState.DELETING))
    journal.write(box, Gone(resource=instance, ended_at=NOW + timedelta(minutes=3)))
    before = (journal.boxes(owner="me"), journal.intents(), journal.resources(present=False))
    assert verify(journal).differences == ()
    assert (journal.boxes(owner="me"), journal.intents(), journal.resources(present=False)) == before
    assert [row.ref.id for row in journal.resources()] == ["sg-1"]
    assert before[0][0].started_at == NOW
    assert {each.end for each in before[0][0].usage} == {NOW + timedelta(minutes=3)}, "the cloud's own end"


def test_a_thing_in_the_making_gets_its_id_and_is_not_doubled(journal: Journal) -> None:
    """Told before and after, it is one thing."""
    box = a_box(journal)
    journal.write(box, Making(resource=a_group("")))
    assert [(row.state, row.ref.id) for row in journal.resources(box.id)] == [("making", "")]
    journal.write(box, Made(resource=a_group()))
    journal.write(box, Made(resource=a_group()))
    assert [(row.state, row.ref.id) for row in journal.resources(box.id)] == [("made", "sg-1")]


def test_a_thing_that_was_found_before_its_making_was_told_of_is_not_doubled(journal: Journal) -> None:
    box = a_box(journal)
    journal.write(box, Made(resource=named(a_group().ref)))
    journal.write(box, Making(resource=a_group("")))
    journal.write(box, Made(resource=a_group()))
    assert [(row.state, row.ref.id) for row in journal.resources(box.id)] == [("made", "sg-1")]


def test_the_end_of_a_box_is_that_of_its_last_extension(journal: Journal) -> None:
    box = a_box(journal)
    for end in (NOW + timedelta(hours=1), None):
        journal.write(box, Extended(expires_at=end))
        assert journal.box(box.id).expires_at == end


def test_an_impossible_change_of_state_is_refused_and_leaves_no_event(journal: Journal) -> None:
    """A deleted box does not come back, not even in the events."""
    box = a_box(journal)
    journal.write(box, StateChanged(state=BoxState.FAILED))
    count = len(journal.history(box.id))
    with pytest.raises(ValueError, match="cannot go from failed to ready"):
        journal.write(box, StateChanged(state=BoxState.READY))
    assert len(journal.history(box.id)) == count


def test_only_the_user_may_read_it(tmp_path: Path) -> None:
    """0600, side files too."""
    journal = Journal.open(tmp_path / "journal.db", clock)
    a_box(journal)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_every_commit_is_synced(tmp_path: Path) -> None:
    """A write-ahead log with full synchronisation: an acknowledged event survives a power cut."""
    journal = Journal.open(tmp_path / "journal.db", clock)
    with connection_of(journal) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def _garbage(path: Path) -> None:
    path.write_bytes(b"not a database" * 999)


def _truncated(path: Path) -> None:
    a_box(Journal.open(path, clock))
    sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    os.truncate(path, 5000)


def _newer(path: Path) -> None:
    Journal.open(path, clock)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "says"),
    [(_garbage, "damaged"), (_truncated, "damaged"), (_newer, "another"), (_folder, "check the file")],
)
def test_a_state_file_that_cannot_be_trusted_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    """Exit 2, one message that says what to do, and the file is left as it is."""
    path = tmp_path / "journal.db"
    damage(path)
    with pytest.raises(UsageError) as caught:
        a_box(Journal.open(path, clock), name="y", id="b-9")
    assert says in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.exit_code == 2


def test_a_lock_that_is_held_for_too_long_is_explained(tmp_path: Path) -> None:
    """Another writer that hangs gives a message, not a trace."""
    journal = Journal.open(tmp_path / "journal.db", clock, busy_s=0.1)
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UsageError, match="locked"):
        a_box(journal)
    other.execute("ROLLBACK")
    other.close()
    assert a_box(journal).name == "x"


def test_a_full_disk_stops_before_anything_is_bought(tmp_path: Path) -> None:
    """The journal cannot grow: planning a box fails, and the journal can still be read."""
    journal = Journal.open(tmp_path / "journal.db", clock)
    a_box(journal)
    with connection_of(journal) as connection:
        connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(UsageError) as caught:
        [a_box(journal, name=f"n{n}", id=f"b-{n:04}" + "x" * 2000) for n in range(200)]
    assert "free some disk space" in str(caught.value.hint)
    assert "x" in {box.name for box in journal.boxes(owner="me")}


def test_a_file_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait before a change to the write-ahead log."""
    file = tmp_path / "journal.db"
    maker = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN IMMEDIATE")
    with pytest.raises(UsageError, match="locked"):
        Journal.open(file, clock, busy_s=0.05)
    threading.Timer(0.2, maker.execute, ["ROLLBACK"]).start()
    assert Journal.open(file, clock).boxes(owner="me") == []
    maker.close()


def test_twenty_processes_write_at_once_and_one_gets_the_name(tmp_path: Path) -> None:
    """One winner, nineteen refusals, no "database is locked", also where each would make the file."""
    code = (
        "import sys; from tests.journal.test_store import *\n"
        "try: a_box(open_journal(Path(sys.argv[1]), clock), id='b-' + sys.argv[2]); print('won')\n"
        "except NameTakenError: print('lost')"
    )
    root = Path(__file__).parents[2]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(n)],
            cwd=root,
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        for n in range(20)
    ]
    said = sorted(process.communicate()[0].strip() for process in running)
    assert said == ["lost"] * 19 + ["won"]


def test_this_process_holds_a_lease_that_is_told_from_a_later_one() -> None:
    """Start time and boot tell it from another process with its number."""
    lease = this_process(NOW)
    assert lease.pid == os.getpid()
    assert lease.started > 0
    assert lease.boot


# --- events, one by one


def a_seen(id: str, epoch: int = 0) -> NewEvent:  # noqa: A002
    return NewEvent(id=id, epoch=epoch, event=Seen(facts=Facts(timers=(id,))))


def test_an_event_is_appended_once_however_often_that_is_tried(journal: Journal) -> None:
    box = a_box(journal)
    assert journal.append(box.id, 2, a_seen("e-1")) is Appended.WRITTEN
    assert journal.append(box.id, 2, a_seen("e-1")) is Appended.WAS_WRITTEN
    assert journal.box(box.id).timers == ("e-1",)
    assert [each.id for each in journal.history(box.id)][1:] == ["e-1"]


def test_who_does_not_know_the_last_event_or_lost_the_box_is_stale(journal: Journal) -> None:
    box = a_box(journal)
    for number in (0, 1, 3):
        assert journal.append(box.id, number, a_seen("e-1")) is Appended.STALE, number
    taken = journal.take(box, a_lease(pid=2), claim=lambda lease: Claim.FREE)
    assert taken is not None
    assert journal.append(box.id, taken.number + 1, a_seen("e-1", box.epoch)) is Appended.STALE
    assert journal.append(box.id, taken.number + 1, a_seen("e-1", taken.epoch)) is Appended.WRITTEN


def test_nothing_is_said_of_a_box_that_is_not_there(journal: Journal) -> None:
    """An older copy of the journal, put in the place of this one, does not know the box."""
    box = a_box(journal)
    for event in (
        Made(resource=named(a_ref())),
        StateChanged(state=BoxState.PROVISIONING),
        Hashed(intent="i", request_hash="h"),
    ):
        with pytest.raises(ValueError, match="there is no box or run b-lost"):
            journal.write(replace(box, id="b-lost"), event)
    assert (journal.history("b-lost"), journal.resources("b-lost")) == ([], [])


def test_events_are_read_from_where_the_last_reading_ended(journal: Journal) -> None:
    box = a_box(journal)
    first, cursor = journal.since()
    assert [(each.box, each.number, each.event.type) for each in first] == [(box.id, 1, "planned")]
    assert journal.since(cursor) == ([], cursor)
    for number in range(3):
        journal.append(box.id, 2 + number, a_seen(f"e-{number}"))
    some, cursor = journal.since(cursor, most=2)
    rest, _ = journal.since(cursor)
    assert [each.id for each in some + rest] == ["e-0", "e-1", "e-2"]


# --- what is billed


def test_what_is_billed_of_a_machine_follows_what_its_cloud_shows(journal: Journal) -> None:
    """Switched off it keeps its disk; started again its compute is billed again, at the price in force."""
    times = iter(NOW + timedelta(hours=hour) for hour in range(20))
    journal._clock = times.__next__
    box = a_box(journal)
    price = Price(amount=Decimal(2), currency="USD")
    node = Node(instance_id="i-1", state=State.RUNNING)
    journal.write(box, intended())
    journal.observe(box, Facts(price=price, nodes=(node,)))  # hour 2
    off = replace(node, state=State.STOPPED, billed=False, ended_at=NOW + timedelta(hours=2, minutes=30))
    journal.observe(box, Facts(nodes=(off,)))
    journal.observe(box, Facts(nodes=(node,)))  # hour 4
    journal.observe(box, Facts(price=replace(price, amount=Decimal(1))))
    journal.write(box, GoneOnce(resource=named(a_ref(id="i-1"))))  # hour 6
    journal.write(box, StateChanged(state=BoxState.DELETING))
    usage = journal.box(box.id).usage
    compute = [each for each in usage if each.part == "compute"]
    hours = [(each.start - NOW, each.end and each.end - NOW) for each in compute]
    assert hours == [
        (timedelta(hours=2), timedelta(hours=2, minutes=30)),
        (timedelta(hours=4), timedelta(hours=6)),
    ]
    assert [each.price and each.price.amount for each in compute] == [2, 1]
    disk = [each for each in usage if each.part == "disk"]
    assert [(each.start - NOW, each.end and each.end - NOW) for each in disk] == [
        (timedelta(hours=2), timedelta(hours=6))
    ]


def test_the_start_that_a_cloud_tells_counts_more_than_when_we_learned_of_it(journal: Journal) -> None:
    box = a_box(journal)
    journal.write(box, intended())
    journal.write(box, Made(resource=named(a_ref(id="i-1"))))
    born = NOW - timedelta(minutes=3)
    journal.observe(box, Facts(nodes=(Node(instance_id="i-1", state=State.RUNNING, started_at=born),)))
    assert {each.start for each in journal.box(box.id).usage} == {born}


@pytest.mark.parametrize("minutes", [0, 1])
def test_a_start_told_as_a_whole_minute_is_that_of_the_request_in_it(journal: Journal, minutes: int) -> None:
    """The cloud's own minute stands where the request is not in it."""
    asked, told = NOW + timedelta(seconds=41), NOW - timedelta(minutes=minutes)
    box = a_box(journal)
    journal._clock = lambda: asked
    journal.write(box, intended())
    journal._clock = lambda: asked + timedelta(seconds=3)
    made = Resolved(intent=intended().intent, status="made", resources=(named(a_ref(id="i-1")),))
    journal.write(box, made)
    journal.observe(box, Facts(nodes=(Node(instance_id="i-1", state=State.RUNNING, started_at=told),)))
    assert {each.start for each in journal.box(box.id).usage} == {told if minutes else asked}


def test_an_intent_that_was_written_is_not_written_over(journal: Journal) -> None:
    """It would hide the first create call; and it is no name that is taken."""
    box = a_box(journal)
    journal.write(box, intended())
    with pytest.raises(ValueError, match="was meant already"):
        journal.write(box, intended())
    assert [each.number for each in journal.history(box.id)] == [1, 2]


def test_a_journal_that_was_closed_opens_again(journal: Journal) -> None:
    box = a_box(journal)
    journal.close()
    assert journal.box(box.id) == box


VOLUME = Facts(
    disk_gib=100,
    listed={"disk_gb_month": Price(amount=Decimal("0.08"), currency="USD")},
    volume=VolumeFacts(keep_s=60),
)
DISK = named(a_ref(kind=ResourceKind.DISK, id="vol-1"), "n")


def test_a_volume_is_billed_for_its_disk_from_its_making_to_its_end(journal: Journal, tmp_path: Path) -> None:
    """Boxes and volumes share names, and nothing else."""
    times = iter(NOW + timedelta(hours=hour) for hour in range(20))
    journal._clock = times.__next__
    a_box(journal)
    volume = journal.plan(
        Volume,
        id="v-1",
        name="data",
        owner="me",
        run_id=None,
        op="op-1",
        expires_at=None,
        facts=VOLUME,
        lease=a_lease(),
    )
    with pytest.raises(NameTakenError):
        a_box(journal, name="data", id="b-2")
    journal.write(volume, intended())
    born = NOW + timedelta(hours=3)
    journal.write(volume, Resolved(intent="op-1.1", status="made", started_at=born, resources=(DISK,)))
    journal.write(volume, StateChanged(state=BoxState.READY))
    assert [box.id for box in journal.boxes(owner="me")] == ["b-1"]
    assert [box.id for box in journal.holdings(Volume, owner="me")] == ["v-1"]
    assert [box.id for box in journal.holdings(Holding, owner="me")] == ["b-1", "v-1"]
    if URL not in os.environ:  # names are completed from a file
        file = tmp_path / "journal.db"
        assert box_names(file, "me") == [("x", "planned")]
        assert volume_names(file, "me") == [("data", "ready")]
    journal.write(volume, StateChanged(state=BoxState.DELETING))
    journal.write(volume, GoneOnce(resource=DISK))
    ended = journal.now_of(volume)
    [usage] = ended.usage
    assert (usage.part, usage.resource, usage.start, usage.gib) == ("disk", "vol-1", born, 100)
    assert usage.end is not None
    assert (usage.region, ended.currency) == (DISK.ref.region, "USD")
    assert ended.removal == "gpucloud volume delete data --yes"
    assert verify(journal).differences == ()
    assert journal.holding(Volume, "v-1") == ended
    with pytest.raises(KeyError):
        journal.box("v-1")


def test_a_volume_that_was_found_is_billed_since_it_was_made(journal: Journal) -> None:
    tags = Tags(owner="me", box="v-1", op="op-1", run="", expires="none", volume="data", retain=True)
    found = journal.recover(
        Volume,
        id="v-1",
        name="data",
        tags=tags,
        state=BoxState.READY,
        created_at=NOW,
        expires_at=None,
        facts=VOLUME,
        resources=[a_group(), DISK],
    )
    assert found is not None
    assert [(usage.part, usage.start, usage.end) for usage in found.usage] == [("disk", NOW, None)]
    journal.observe(found, Facts(volume=VolumeFacts(used_at=NOW, holder="b-1", mounted=True)))
    held = journal.now_of(found)
    assert (held.keep_s, held.used_at, held.holder, held.mounted) == (60, NOW, "b-1", True)


def test_what_a_volume_or_a_snapshot_has_not_is_refused_and_not_written(journal: Journal) -> None:
    """Only boxes have machines; and for how long a volume is kept is known from its beginning."""
    shared: dict[str, Any] = {"owner": "me", "run_id": None, "op": "op-1", "expires_at": None}
    volume = journal.plan(Volume, id="v-1", name="data", facts=VOLUME, lease=a_lease(), **shared)
    of_snapshots = Facts(disk_gib=100, snapshot=SnapshotFacts(of="data", mounted=True))
    snapshot = journal.plan(Snapshot, id="s-1", name="copy", facts=of_snapshots, lease=a_lease(), **shared)
    assert (snapshot.of, snapshot.mounted, snapshot.disk_gib) == ("data", True, 100)
    for held in (volume, snapshot):
        with pytest.raises(ValueError, match=f"a {held.kind} has no nodes, ports"):
            journal.write(held, Seen(facts=Facts(nodes=(), ports=(80,))))
        assert journal.now_of(held) == held
    with pytest.raises(ValueError, match="for how long is volume v-2 kept"):
        journal.plan(Volume, id="v-2", name="more", facts=Facts(), lease=a_lease(), **shared)
    assert [each.id for each in journal.holdings(Holding, owner="me")] == ["s-1", "v-1"]
    assert journal.known(Volume, ["s-1", "v-1"]) == [volume]
    assert journal.named("me", "copy") == [snapshot]
    assert verify(journal).differences == ()
