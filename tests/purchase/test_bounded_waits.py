"""No command is kept waiting: by a cloud that does not answer, by much that is owed, by what never ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud.ending.discovery import WaitPolicy, begin, finish
from gpucloud.ending.down import end_all
from gpucloud.ending.reconcile import settle
from gpucloud.ending.settlement import settle_box
from gpucloud.ending.teardown import end_machines, take_down
from gpucloud.ending.unrecorded import end_unrecorded
from gpucloud.errors import CleanupIncompleteError, GpucloudError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.planning.access import CloudAccess
from gpucloud.purchase.failover import launch
from gpucloud.resources import Ref, ResourceKind, Search
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import AFTER_SIGNAL_S
from tests.bench import Bench
from tests.builders import Clock
from tests.memory import TOKEN_ATOMIC, MemoryProvider, Pace

GENEROUS_S = 30.0
"""Much longer than what is bounded takes, and much shorter than what hangs."""


class Deaf(MemoryProvider):
    """A cloud of which one, ``alibaba``, gives no answer."""

    def account(self) -> str:
        if self.name == "alibaba":
            self.cloud.calls.append(("account", ""))  # type: ignore[arg-type]
            threading.Event().wait(600)
        return super().account()


class Stuck(MemoryProvider):
    """A cloud that gives no answer to the deletion of a machine."""

    def delete(self, ref: Ref) -> None:
        if ref.kind is ResourceKind.INSTANCE:
            threading.Event().wait(600)
        super().delete(ref)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    clouds = [
        MemoryProvider.named(name, temperament=TOKEN_ATOMIC, clock=clock) for name in ("aws", "alibaba")
    ]
    return Bench(tmp_path, clock, clouds)


def unwanted(bench: Bench, box: str, cloud: str = "aws") -> Box:
    """A box whose end was begun by a command that is no more."""
    first = sorted(bench.providers, key=lambda provider: provider.name != cloud)
    there = replace(bench, providers=first)
    context = there.context()
    made = launch(context, there.purchase(box=box, name=box))
    context.journal.write(made, StateChanged(state=BoxState.READY))
    context.journal.write(made, StateChanged(state=BoxState.DELETING))
    context.journal.release(made)
    return context.journal.box(box)


def in_time(call: Callable[[], Sequence[Exception]]) -> Sequence[Exception]:
    """What a call gives, which is soon."""
    began = time.monotonic()
    given = call()
    assert time.monotonic() - began < GENEROUS_S
    return given


def test_a_cloud_that_does_not_answer_keeps_nothing_of_another_from_being_settled(bench: Bench) -> None:
    """And is left out for the rest of the command."""
    unwanted(bench, "b-1")
    for number in range(2, 42):
        unwanted(bench, f"b-{number}", "alibaba")
    bench.kind = Deaf
    context = bench.context()
    [trouble] = in_time(lambda: settle(context))
    assert isinstance(trouble, CleanupIncompleteError)
    assert "and 35 more may still be billed: alibaba did not answer" in trouble.message
    assert context.journal.box("b-1").state is BoxState.DELETED
    assert context.is_unresponsive("alibaba")
    asked = len(bench.providers[1].cloud.calls)
    access = CloudAccess(context)
    assert access.ask(["aws", "alibaba"])
    assert (sorted(access.left_out), sorted(access.usable)) == (["alibaba"], ["aws"])
    only_silent = CloudAccess(context)
    assert only_silent.ask(["alibaba"])
    failure = only_silent.nobody()
    assert (failure.error_class, failure.cloud, failure.exit_code) == ("server", "alibaba", 1)
    assert len(settle(context)) == 1
    assert len(bench.providers[1].cloud.calls) == asked, "it is not asked again"
    assert not [box.name for box in context.journal.boxes(owner=context.owner) if box.lease], "none is held"


def test_a_deletion_without_an_answer_is_named_and_stays_owed(bench: Bench) -> None:
    bench.kind = Stuck
    context = bench.context()
    box = launch(context, bench.purchase())
    with context.tasks.within(1.0):
        trouble = settle_box(context, box)
    assert trouble is not None
    assert "no answer within the remaining time" in trouble.message
    assert ResourceKind.INSTANCE in {row.ref.kind for row in context.journal.resources(box.id)}


def used(bench: Bench, box: str, cloud: str = "aws") -> Box:
    """A box that its owner uses."""
    there = replace(bench, providers=sorted(bench.providers, key=lambda provider: provider.name != cloud))
    context = there.context()
    made = launch(context, there.purchase(box=box, name=box))
    context.journal.write(made, StateChanged(state=BoxState.READY))
    context.journal.release(made)
    return context.journal.box(box)


def test_a_down_of_several_boxes_takes_no_longer_than_of_one(bench: Bench) -> None:
    """All are asked to end at once: ends that take five minutes each come together."""
    boxes = [used(bench, f"b-{number}") for number in range(3)]
    bench.providers[0].cloud.ends = Pace(seconds=300)
    began = bench.clock()
    troubles: list[GpucloudError] = []
    ended = end_all(bench.context(), boxes, troubles)
    assert [(box.name, box.state) for box in ended] == [(box.name, BoxState.DELETED) for box in boxes]
    assert troubles == []
    assert bench.clock() - began < timedelta(seconds=600)


def test_a_down_of_several_boxes_ends_those_beside_the_one_that_cannot_be_ended(bench: Bench) -> None:
    """The one whose end never comes takes its turns, and none of the others' time; it is told."""
    boxes = [used(bench, "b-1", "alibaba"), used(bench, "b-2"), used(bench, "b-3")]
    next(each.cloud for each in bench.providers if each.name == "alibaba").ends = Pace(seconds=36000)
    troubles: list[GpucloudError] = []
    ended = end_all(bench.context(), boxes, troubles)
    assert [box.name for box in ended] == ["b-2", "b-3"]
    [trouble] = troubles
    assert isinstance(trouble, CleanupIncompleteError)
    assert "'b-1' may still be billed" in trouble.message
    assert bench.context().journal.box("b-1").lease is None


def test_every_box_is_asked_to_end_before_any_is_waited_for(bench: Bench) -> None:
    for number in range(4):
        unwanted(bench, f"b-{number}")
    cloud = bench.providers[0].cloud
    cloud.ends = Pace(seconds=3600)
    troubles = settle(bench.context())
    assert [type(trouble) for trouble in troubles] == [CleanupIncompleteError] * 4
    assert {str(machine.state) for machine in cloud.machines()} == {"stopping"}


def _take_down(context: Context, box: Box) -> None:
    take_down(context, box, budget_s=600)


def _end_machines(context: Context, box: Box) -> None:
    end_machines(context, box, budget_s=600)


def _end_unrecorded(context: Context, box: Box) -> None:
    end_unrecorded(context, box, budget_s=600)


@pytest.mark.parametrize("ends", [_take_down, _end_machines, _end_unrecorded])
@pytest.mark.parametrize("signalled", [False, True])
def test_after_a_signal_no_loop_goes_on_for_longer_than_a_minute(
    bench: Bench, ends: Callable[[Context, Box], None], signalled: bool
) -> None:
    """Without one, each has its own budget. That it goes on is said."""
    context = bench.context()
    box = launch(context, bench.purchase())
    bench.providers[0].cloud.ends = Pace(seconds=36000)
    said: list[str] = []
    context.tasks.heard = said.append
    began = bench.clock()
    with context.tasks.listening(), context.tasks.finishing():
        if signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(CleanupIncompleteError):
            ends(context, box)
    took_s = (bench.clock() - began).total_seconds()
    assert took_s == pytest.approx(AFTER_SIGNAL_S if signalled else 600, abs=10)
    assert len(said) == signalled


def test_a_search_waits_for_a_silent_cloud_no_longer_than_it_was_told_and_names_it(bench: Bench) -> None:
    unwanted(bench, "b-1")
    bench.kind = Deaf
    context = bench.context()
    patience = WaitPolicy(first_s=0.5, whole_s=GENEROUS_S, news_s=0.2)
    began = time.monotonic()
    discovery = finish(context, begin(context, Search(owner=context.owner)), patience)
    assert time.monotonic() - began < GENEROUS_S
    assert {resource.ref.cloud for resource in discovery.resources} == {"aws"}
    assert [(each.cloud, each.region) for each in discovery.unread] == [("alibaba", "*")]
