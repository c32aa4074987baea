"""What settling leaves to others, and where its time ends; what a look says of boxes that are not in use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpucloud.ending.reconcile import refresh, refresh_all, settle
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError, CloudError, ErrorClass
from gpucloud.journal.events import Made, StateChanged, named
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState, Claim
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.purchase.failover import abandon, launch
from gpucloud.resources import Ref, ResourceKind, State
from gpucloud.runtime.context import Context
from gpucloud_templates import GUARD_LAST_WORDS
from tests.bench import Bench
from tests.builders import Clock, a_ref
from tests.ending.test_reconcile import SilentClock, ready, somebody
from tests.memory import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, MemoryProvider


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])


def over_with_a_group(bench: Bench, name: str) -> Box:
    """A deleted box of which a group is still owed."""
    context = bench.context()
    box = take_down(context, ready(bench, f"b-{name}", name=name), budget_s=60)
    context.journal.write(
        box, Made(resource=named(a_ref(kind=ResourceKind.GROUP, id=f"sg-{name}"), f"group-{name}"))
    )
    context.journal.release(box)
    return context.journal.box(box.id)


def group_of(context: Context, box: Box) -> str:
    """What the journal says of its group."""
    [row] = [row for row in context.journal.resources(box.id) if row.name.startswith("group-")]
    return row.state


class Slow(MemoryProvider):
    """Each deletion takes a minute."""

    def delete(self, ref: Ref, /) -> None:
        self.cloud.clock.sleep(60)
        super().delete(ref)


def test_settling_leaves_what_another_owner_owes(bench: Bench) -> None:
    over_with_a_group(bench, "one")
    context = replace(bench.context(), owner="u-somebody-else")
    calls = len(bench.providers[0].cloud.calls)
    assert settle(context, budget_s=60) == []
    assert len(bench.providers[0].cloud.calls) == calls


def test_settling_leaves_what_another_process_settles(bench: Bench) -> None:
    box = over_with_a_group(bench, "one")
    context = bench.context()
    assert context.journal.take(box, somebody(), claim=lambda _: Claim.FREE) is not None
    assert settle(context, budget_s=60) == []
    assert group_of(context, box) == "made"


def test_second_looks_end_when_the_time_is_over(bench: Bench) -> None:
    """The first one takes all of it."""
    boxes = [over_with_a_group(bench, name) for name in ("one", "two")]
    bench.kind = Slow
    context = bench.context()
    settle(context, budget_s=30)
    first, second = (group_of(context, box) for box in boxes)
    assert (first == "made", second == "made") == (False, True)


def test_boxes_for_which_there_was_no_time_are_named_and_not_begun(bench: Bench) -> None:
    for name in ("one", "two"):
        box = ready(bench, f"b-{name}", name=name)
        bench.context().journal.write(box, StateChanged(state=BoxState.DELETING))
    bench.kind = Slow
    context = bench.context()
    troubles = settle(context, budget_s=30)
    assert all(isinstance(trouble, CleanupIncompleteError) for trouble in troubles)
    assert "two may still be billed" in troubles[-1].message
    assert {row.state for row in context.journal.resources("b-two")} == {"made"}


@pytest.mark.parametrize(("idle", "left"), [("30m", BoxState.DELETED), ("none", BoxState.READY)])
def test_a_box_that_its_guard_ended_while_it_was_idle_is_taken_down_by_the_next_command(
    tmp_path: Path, idle: str, left: BoxState
) -> None:
    """When it did so the journal does not know: such boxes, and no others, are looked at first."""

    class Console(MemoryProvider):
        def console(self, ref: Ref, /) -> str:
            return f"boot of {ref.id}\n{GUARD_LAST_WORDS}\n"

    clock = Clock()
    cloud = MemoryProvider.named("azure", temperament=BY_NAME_LONG_RUNNING, clock=clock)
    bench = Bench(tmp_path, clock, [cloud])
    bench.kind = Console
    box = ready(bench)
    context = bench.context()
    wanted = replace(box.wanted, spec={**box.wanted.spec, "idle": idle})
    context.journal.observe(box, Facts(wanted=wanted))
    clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    [machine] = cloud.cloud.machines()
    cloud.cloud.end(machine.ref)
    settle(context, budget_s=600)
    assert context.journal.box(box.id).state is left


def test_what_a_launch_that_lost_its_box_has_made_is_left_to_who_keeps_it(bench: Bench) -> None:
    """Another process took the box over, and does not end it."""
    context = bench.context()
    box = launch(context, bench.purchase())
    other = context.journal.take(box, somebody(), claim=lambda _: Claim.HELD, by_force=True)
    assert other is not None
    abandon(context, box, CloudError("no", error_class=ErrorClass.SERVER, cloud="aws"))
    assert ("down", "box 'x' was taken over by another gpucloud") in [
        (step, text.partition(";")[0]) for step, text in bench.lines
    ]
    assert bench.billed()


def test_a_look_asks_nothing_of_a_box_that_is_over(bench: Bench) -> None:
    context = bench.context()
    box = take_down(context, ready(bench), budget_s=60)
    calls = len(bench.providers[0].cloud.calls)
    assert refresh_all(context, [box]) == []
    assert len(bench.providers[0].cloud.calls) == calls


def test_a_look_at_a_launch_under_way_changes_no_state(bench: Bench) -> None:
    """Its machine is gone: that is for the launch to find out, and to try elsewhere."""
    context = bench.context()
    box = launch(context, bench.purchase())
    cloud = bench.providers[0].cloud
    cloud.end(cloud.machines()[0].ref)
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    seen = refresh(context, box)
    assert seen.state is box.state
    assert [node.state for node in seen.nodes] == [State.GONE]


def test_the_end_of_a_machine_goes_by_our_clock_where_its_cloud_tells_no_time(bench: Bench) -> None:
    box = ready(bench)
    bench.kind = SilentClock
    cloud = bench.providers[0].cloud
    cloud.end(cloud.machines()[0].ref)
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    [node] = refresh(bench.context(), box).nodes
    assert node.ended_at == bench.clock()


@pytest.mark.files
def test_a_renewal_of_nothing_writes_nothing(bench: Bench) -> None:
    journal = bench.context().journal
    file = bench.folder / "journal.db-wal"
    before = file.read_bytes()
    journal.renew()
    assert file.read_bytes() == before


def test_everything_that_boxes_ever_had_is_kept(bench: Bench) -> None:
    """By which a sweep knows a machine of a box from one that only carries its tags."""
    context = bench.context()
    box = ready(bench)
    machine = bench.providers[0].cloud.machines()[0].ref
    take_down(context, box, budget_s=60)
    assert machine in [row.ref for row in context.journal.resources_of([box.id])]
    assert context.journal.resources_of(["b-other"]) == []


def test_the_journal_goes_by_this_machine_s_clock_where_its_file_is_gone(tmp_path: Path) -> None:
    clock = Clock()
    journal = Journal.open(tmp_path / "journal.db", clock)
    assert journal.now() != clock()
    (tmp_path / "journal.db").unlink()
    assert journal.now() == clock()
