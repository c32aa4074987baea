"""The engine's guards, one by one: without its test here, each could be taken away unnoticed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.ending.discovery import begin, finish
from gpucloud.ending.pending import pending_deletions
from gpucloud.ending.reconcile import refresh, remains, settle
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError, CloudError, ErrorClass
from gpucloud.journal.errors import RunTakenError
from gpucloud.journal.events import Gone, GoneOnce, Made, StateChanged, named
from gpucloud.journal.facts import Facts, Wanted
from gpucloud.journal.leases import this_process
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState, Lease
from gpucloud.journal.records import Box
from gpucloud.purchase.failover import launch
from gpucloud.resources import (
    ResourceKind,
    Search,
    SearchResult,
    Tags,
    UnreadableRegion,
    cloud_name,
    token_for,
)
from tests.bench import OWNER, Bench
from tests.builders import Clock, a_ref
from tests.memory import TOKEN_ATOMIC, ConnectionLost, MemoryProvider, Pace
from tests.waiting import PATIENCE_S


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])


def ready(bench: Bench) -> Any:
    """A box that its owner uses."""
    context = bench.context()
    box = launch(context, bench.purchase())
    context.journal.write(box, StateChanged(state=BoxState.READY))
    context.journal.release(box)
    return context.journal.box(box.id)


@pytest.mark.parametrize("changed", ["op", "account", "region", "zone", "attempt"])
def test_a_key_is_of_one_attempt_in_one_place(changed: str) -> None:
    values: dict[str, Any] = {"op": "o", "account": "a", "region": "r", "zone": "z", "attempt": 1}
    other = {**values, changed: 2 if changed == "attempt" else "other"}
    assert token_for(**values) == token_for(**values)
    assert token_for(**values) != token_for(**other)
    assert len(token_for(**values)) <= 64
    assert token_for(**values).isascii()


def test_boxes_whose_names_look_alike_have_other_names_in_a_cloud() -> None:
    names = {cloud_name(name, box) for name in ("my-box", "my.box", "MY_BOX") for box in ("b-1", "b-2")}
    assert len(names) == 2, "the slug is the same, the hash is the box's"


@pytest.mark.parametrize("missing", ["owner", "box"])
def test_half_of_our_tags_make_nothing_ours(missing: str) -> None:
    tags = {"gpucloud:owner": "u", "gpucloud:box": "b", "gpucloud:op": "o"}
    del tags[f"gpucloud:{missing}"]
    assert not isinstance(Tags.parse(tags), Tags)


def test_a_run_has_one_box_where_that_is_asked(bench: Bench) -> None:
    context = bench.context()
    launch(context, bench.purchase(box="b-1", name="one", run_id="r", attended=True))
    with pytest.raises(RunTakenError):
        launch(context, bench.purchase(box="b-2", name="two", run_id="r", attended=True))
    assert bench.machines() == 1
    assert launch(context, bench.purchase(box="b-3", name="three", run_id="r")).run_id == "r"


def test_a_call_whose_answers_are_all_lost_is_looked_up(bench: Bench) -> None:
    cloud = bench.providers[0].cloud
    cloud.listed = Pace()  # else it is owed until lists show it
    cloud.fail("create", ConnectionLost(), applied=True, times=999)
    box = launch(bench.context(), bench.purchase())
    assert (box.state, bench.machines(), len(box.nodes)) == (BoxState.BOOTSTRAPPING, 1, 1)


def test_a_call_that_the_cloud_calls_wrong_is_not_repeated(bench: Bench) -> None:
    cloud = bench.providers[0].cloud
    cloud.fail("create", cloud.say(ErrorClass.BAD_PARAM), times=999)
    with pytest.raises((CloudError, CleanupIncompleteError)):
        launch(bench.context(), bench.purchase())
    assert [call.action for call in cloud.calls].count("create") == 1


def test_a_refusal_after_a_silence_is_looked_at_once_more(bench: Bench) -> None:
    """The refused repetition says nothing of the call before it."""
    cloud = bench.providers[0].cloud
    cloud.fail("create", ConnectionLost())
    cloud.fail("create", cloud.say(ErrorClass.CAPACITY), nth=2, times=99)
    context = bench.context()
    with pytest.raises(CloudError):
        launch(context, bench.purchase(bench.offers("us-east-1/use1-az4")))
    assert [intent.status for intent in context.journal.intents()] == ["watched"]


def test_a_disk_alone_is_owed(bench: Bench) -> None:
    box = ready(bench)
    journal = bench.context().journal
    for row in journal.resources(box.id):
        journal.write(box, Gone(resource=named(row.ref, row.name)))
    disk = a_ref(kind=ResourceKind.DISK, id="vol-1")
    journal.write(box, Made(resource=named(disk, "x")))
    assert [item.ref for item in pending_deletions(bench.context().journal, box)] == [disk]


def test_a_thing_that_is_shown_again_is_there_again(bench: Bench) -> None:
    box = ready(bench)
    journal = bench.context().journal
    [machine] = [row for row in journal.resources(box.id) if row.ref.kind is ResourceKind.INSTANCE]
    for event, state in ((GoneOnce, "made"), (Gone, "made")):
        journal.write(box, event(resource=named(machine.ref, machine.name)))
        journal.write(box, Made(resource=named(machine.ref, machine.name)))
        [now] = [row for row in journal.resources(box.id) if row.ref == machine.ref]
        assert now.state == state


def test_a_young_machine_that_is_not_shown_is_late_and_an_old_one_is_gone(bench: Bench) -> None:
    box = ready(bench)
    cloud = bench.providers[0].cloud
    cloud.items = {
        key: item for key, item in cloud.items.items() if item.ref.kind is not ResourceKind.INSTANCE
    }
    assert refresh(bench.context(), box).state is BoxState.READY
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    assert refresh(bench.context(), box).state is BoxState.DELETING


def test_what_was_gone_once_is_looked_at_again_after_the_window(bench: Bench) -> None:
    box = ready(bench)
    context = bench.context()
    cloud = bench.providers[0].cloud
    take_down(context, box, budget_s=60)
    cloud.items.clear()
    context.journal.write(box, Made(resource=named(a_ref(kind=ResourceKind.DISK, id="vol-9"), "x")))
    context.journal.write(box, GoneOnce(resource=named(a_ref(kind=ResourceKind.DISK, id="vol-9"), "x")))
    bench.clock.sleep((CONSISTENCY_WINDOW + timedelta(minutes=1)).total_seconds())
    assert settle(bench.context()) == []
    assert [row for row in context.journal.resources(box.id) if row.ref.id == "vol-9"] == []


def test_a_launch_that_somebody_works_on_is_no_remains(bench: Bench) -> None:
    context = bench.context()
    init = this_process(bench.clock())
    living = Lease(
        host=socket.gethostname(), boot=init.boot, pid=1, started=_started_of_init(), beat=bench.clock()
    )
    facts = Facts(wanted=Wanted(spec={}, image="x"), disk_gib=100)
    context.journal.plan(
        Box, id="b-1", name="x", owner=OWNER, run_id=None, op="o", expires_at=None, facts=facts, lease=living
    )
    assert remains(context, context.journal.boxes(owner=OWNER)) == []


def _started_of_init() -> int:
    return int(Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])


class HalfBlind(MemoryProvider):
    """Sees some kinds in a region, and is told no about the others."""

    def find(self, search: Search, /) -> SearchResult:
        found = super().find(search)
        unread = tuple(
            UnreadableRegion(cloud=self.name, region="us-east-1", error="denied") for _ in found.resources[:1]
        )
        return replace(found, unread=unread)


def test_half_a_view_of_a_region_is_none(bench: Bench) -> None:
    ready(bench)
    bench.clock.sleep(3600)
    blind = replace(bench, kind=HalfBlind)
    context = blind.context()
    discovery = finish(context, begin(context, Search(owner=OWNER)))
    assert (discovery.resources, [region.region for region in discovery.unread]) == ((), ["us-east-1"])


def test_a_second_signal_ends_the_process_at_once_with_the_command_that_cleans_up() -> None:
    program = (
        "from gpucloud.runtime.tasks import Tasks\n"
        "tasks = Tasks()\n"
        "tasks.clean_up = 'the command'\n"
        "with tasks.listening(), tasks.finishing():\n"
        "    print('ready', flush=True)\n"
        "    tasks.pause(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGINT
    assert "the command" in said
