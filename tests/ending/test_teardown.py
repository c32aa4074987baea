"""The end of a box where something comes between: another process, a refusal, no time, no list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud.ending.resolution import is_second_machine
from gpucloud.ending.teardown import TIDY_S, take_down
from gpucloud.ending.unrecorded import end_unrecorded
from gpucloud.errors import CleanupIncompleteError, ErrorClass
from gpucloud.journal.errors import StaleWriterError
from gpucloud.journal.events import Hashed, Intended, StateChanged
from gpucloud.journal.facts import Facts, VolumeFacts
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.journal.records import Box, Volume
from gpucloud.purchase.failover import launch
from gpucloud.resources import Machine, Ref, ResourceKind
from tests.bench import Bench
from tests.builders import Clock
from tests.journal.test_leases import another
from tests.memory import TOKEN_ATOMIC, MemoryProvider


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])


def launched(bench: Bench, box: str = "b-1") -> Box:
    return launch(bench.context(), bench.purchase(box=box, name=box))


def overtaken(bench: Bench, box: Box) -> type[MemoryProvider]:
    """A cloud during whose first deletion another process, which lives, takes the box over to end it."""
    other = another(bench)

    def take() -> None:
        taken = other.take(box, by_force=True)
        assert taken is not None
        other.journal.write(taken, StateChanged(state=BoxState.DELETING))

    left: list[Callable[[], None]] = [take]

    class Overtaken(MemoryProvider):
        def delete(self, ref: Ref, /) -> None:
            while left:
                left.pop()()
            super().delete(ref)

    return Overtaken


class Locked(MemoryProvider):
    """Lets nobody delete a group."""

    def delete(self, ref: Ref, /) -> None:
        if ref.kind is ResourceKind.GROUP:
            raise self.cloud.say(ErrorClass.AUTH)
        super().delete(ref)


def test_a_box_is_told_once_and_before_anything_of_it_is_deleted(bench: Bench) -> None:
    box = launched(bench)
    told: list[tuple[str, int]] = []
    context = replace(
        bench.context(), before_end=lambda _, ended: told.append((ended.name, bench.machines()))
    )
    with pytest.raises(CleanupIncompleteError):
        take_down(context, box, once=True)
    take_down(context, box)
    assert told == [(box.name, 1)]
    assert bench.machines() == 0


def test_who_loses_a_box_in_the_middle_of_its_end_writes_nothing_more(bench: Bench) -> None:
    box = launched(bench)
    bench.kind = overtaken(bench, box)
    context = bench.context()
    with pytest.raises(StaleWriterError):
        take_down(context, box, once=True)
    assert {row.state for row in context.journal.resources(box.id)} == {"made"}


def test_an_end_that_another_process_does_not_finish_is_owed(bench: Bench) -> None:
    """Its new holder lives, as far as its lease says."""
    box = launched(bench)
    bench.kind = overtaken(bench, box)
    with pytest.raises(CleanupIncompleteError, match="may still be billed: instance"):
        take_down(bench.context(), box, budget_s=20)


def test_a_group_that_may_not_be_deleted_is_not_asked_for_again_and_again(bench: Bench) -> None:
    """It costs nothing, and somebody has to grant the permission first: the box is over all the same."""
    box = launched(bench)
    bench.kind = Locked
    began = bench.clock()
    assert take_down(bench.context(), box, budget_s=600).state is BoxState.DELETED
    assert bench.clock() - began < timedelta(seconds=TIDY_S)
    [group] = [row for row in bench.context().journal.resources(box.id) if row.state == "made"]
    assert group.ref.kind is ResourceKind.GROUP


def test_a_second_machine_under_the_tags_of_a_box_is_left_alone(bench: Bench) -> None:
    """Somebody launched one more like it; it holds the group, and is not ours to end."""
    box, copied = launched(bench), launched(bench, "b-2")
    for item in bench.providers[0].cloud.items.values():
        item.tags["gpucloud:box"] = "b-1"
    bench.kind = Locked
    take_down(bench.context(), box, budget_s=600)
    known = {row.ref for row in bench.context().journal.resources("b-1", present=False)}
    assert copied.machine(0) not in known
    assert [machine.ref for machine in bench.providers[0].cloud.machines()] == [copied.machine(0)]


@pytest.mark.parametrize("late", [False, True])
def test_what_was_lost_and_found_may_have_nodes_that_were_made_with_the_others(
    bench: Bench, late: bool
) -> None:
    box, other = launched(bench), launched(bench, "b-2")
    seen = bench.providers[0].get(other.machine(0))
    assert isinstance(seen, Machine)
    assert seen.created_at is not None
    then = seen.created_at - (CONSISTENCY_WINDOW if late else timedelta())
    assert is_second_machine(replace(box, recovered=True, started_at=then), seen) is late


def test_without_the_journal_nothing_is_concluded_from_a_list_that_is_refused(bench: Bench) -> None:
    box = launched(bench)
    bench.providers[0].cloud.deny("list")
    with pytest.raises(CleanupIncompleteError, match="may still be billed"):
        end_unrecorded(bench.context(), box, budget_s=30)


def test_without_the_journal_and_without_time_a_box_is_owed(bench: Bench) -> None:
    box = launched(bench)
    with pytest.raises(CleanupIncompleteError, match="no time is left"):
        end_unrecorded(bench.context(), box, budget_s=0)


def a_volume(bench: Bench) -> Volume:
    """A volume whose create call has no answer."""
    context = bench.context()
    volume = context.journal.plan(
        Volume,
        id="v-1",
        name="data",
        owner=context.owner,
        run_id=None,
        op="op-v",
        expires_at=None,
        facts=Facts(volume=VolumeFacts(keep_s=60)),
        lease=context.lease(),
    )
    intended = Intended(
        intent="op-v.1",
        op="op-v",
        cloud="aws",
        account=context.clouds["aws"].account(),
        region="us-east-1",
        zone="use1-az4",
        token="t",
        name="n",
        facts=Facts(),
    )
    context.journal.write(volume, intended)
    context.journal.write(volume, Hashed(intent="op-v.1", request_hash="h"))
    return volume


def test_a_volume_that_may_have_been_made_is_owed_until_it_would_be_shown(bench: Bench) -> None:
    volume = a_volume(bench)
    with pytest.raises(CleanupIncompleteError, match="volume 'data' may still be billed") as owed:
        take_down(bench.context(), volume, once=True)
    assert [each["kind"] for each in owed.value.left] == ["disk"]
    assert owed.value.owed_command == "gpucloud volume delete data --yes"
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    assert take_down(bench.context(), volume).state is BoxState.DELETED


def test_a_volume_that_was_made_is_found_by_its_tags_and_deleted(bench: Bench) -> None:
    launched(bench)
    cloud = bench.providers[0].cloud
    [disk] = [item for item in cloud.items.values() if item.ref.kind is ResourceKind.DISK]
    volume = a_volume(bench)
    disk.tags |= {"gpucloud:box": "v-1", "gpucloud:volume": "data", "gpucloud:retain": "true"}
    disk.parent = None  # it stands for itself
    take_down(bench.context(), volume, budget_s=600)
    rows = bench.context().journal.resources("v-1", present=False)
    assert [row.ref for row in rows] == [disk.ref]
    assert "disk" not in bench.billed()
    assert bench.machines() == 1
