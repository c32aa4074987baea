"""What ends machines from outside is set in one step, however the machines were found out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpucloud.clouds.provider import Record
from gpucloud.ending.discovery import begin, finish
from gpucloud.ending.recover import adopt_found
from gpucloud.errors import CloudError, ErrorClass
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.purchase.failover import launch
from gpucloud.resources import End, Machine, Order, Ref, Request, Search
from gpucloud_pricing import Market
from tests.bench import ZONES, Bench
from tests.builders import Clock
from tests.memory import ConnectionLost, MemoryProvider


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A cloud where an end is set by a call of its own."""
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("azure", clock=clock, zones=ZONES)])


def started(bench: Bench) -> Box:
    return launch(bench.context(), bench.purchase())


@pytest.mark.parametrize("lost", [False, True])
def test_a_machine_that_is_found_after_a_lost_answer_ends_from_outside_like_any_other(
    bench: Bench, lost: bool
) -> None:
    cloud = bench.providers[0].cloud
    if lost:
        cloud.fail("create", ConnectionLost(), applied=True, times=9999)
    box = started(bench)
    [machine] = cloud.machines()
    assert machine.ends_at == box.expires_at
    assert box.timers == (f"timer-{machine.ref.id}",)


class SetsATimerBefore(MemoryProvider):
    """Its machines have a timer before they exist; none is set again for those that have one."""

    def prepare(self, order: Order, record: Record, /) -> Request:
        request = super().prepare(order, record)
        record.armed([f"early-{order.zone}"])
        return request

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        return () if timers else super().ensure_end(machines, end, timers, note)


def test_a_timer_that_is_set_before_its_machine_is_journalled_and_handed_on(bench: Bench) -> None:
    """Of an attempt that failed nothing is left to move: its machine never was."""
    cloud = bench.providers[0].cloud
    cloud.fail("create", cloud.say(ErrorClass.CAPACITY), times=1)
    box = started(replace(bench, kind=SetsATimerBefore))
    assert box.place is not None
    assert box.timers == (f"early-{box.place.zone}",)
    assert len({intent.zone for intent in bench.context().journal.intents(box.id)}) == 2


class LosesAnAnswerAfterTheTimer(MemoryProvider):
    """The timer is set, and then a call of the same step is not answered."""

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        made = super().ensure_end(machines, end, timers, note)
        if not timers:
            raise ConnectionLost
        return made


def test_a_timer_of_a_try_that_failed_is_known_to_the_next_one(bench: Bench) -> None:
    box = started(replace(bench, kind=LosesAnAnswerAfterTheTimer))
    assert box.timers == (f"timer-{box.nodes[0].instance_id}",)


@pytest.mark.parametrize("error_class", [ErrorClass.SERVER, ErrorClass.AUTH, ErrorClass.BAD_PARAM])
@pytest.mark.parametrize("lost", [False, True])
def test_a_machine_whose_end_cannot_be_set_is_ended_and_that_is_said(
    bench: Bench, error_class: ErrorClass, lost: bool
) -> None:
    """Whatever the answer is, and however often it is asked for."""
    cloud = bench.providers[0].cloud
    if lost:
        cloud.fail("create", ConnectionLost(), applied=True, times=9999)
    cloud.fail("arm", cloud.say(error_class), times=9999)
    with pytest.raises(CloudError) as caught:
        started(bench)
    assert caught.value.error_class is error_class
    assert "could not set the timer that ends the box" in caught.value.message
    assert "The box was deleted" in caught.value.message
    assert (bench.machines(), bench.billed()) == (0, [])


@pytest.mark.parametrize("refused", [False, True])
def test_a_box_that_is_taken_in_by_its_tags_ends_from_outside_or_that_is_said(
    bench: Bench, refused: bool
) -> None:
    cloud = bench.providers[0].cloud
    expires_at = started(bench).expires_at
    [machine] = cloud.machines()
    machine.ends_at = None
    if refused:
        cloud.fail("arm", cloud.say(ErrorClass.AUTH), times=9999)
    elsewhere = replace(bench, folder=bench.folder / "other")
    elsewhere.folder.mkdir()
    context = elsewhere.context()
    discovery = finish(context, begin(context, Search(owner=context.owner)))
    [box], troubles = adopt_found(context, discovery, Market.load())
    assert box.state is BoxState.READY
    assert machine.ends_at == (None if refused else expires_at)
    assert [each.hint for each in troubles] == (
        [f"set it again: gpucloud extend {box.name}; or delete it: gpucloud down {box.name}"]
        if refused
        else []
    )
    assert len(cloud.machines()) == 1
