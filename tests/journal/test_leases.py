"""Leases: a living holder keeps its box, a silent one loses it, and whoever lost it changes nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.clouds.abilities import Traits
from gpucloud.clouds.provider import Record
from gpucloud.ending.reconcile import settle
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError, ErrorClass, GpucloudError, InterruptedBySignal
from gpucloud.journal.errors import StaleWriterError
from gpucloud.journal.events import Hashed, Intended, StateChanged
from gpucloud.journal.facts import Facts, Place
from gpucloud.journal.leases import renewing, this_process
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, LEASE_TIMEOUT, BoxState, Claim, Lease
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.purchase.failover import launch
from gpucloud.resources import Machine, Order, Ref, Request, Resource
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Tasks
from tests.bench import Bench
from tests.builders import Clock
from tests.memory import TOKEN_ATOMIC, CloudSaid, ConnectionLost, MemoryProvider, Pace


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])


def elsewhere(now: Clock) -> Lease:
    """A process of another machine."""
    return replace(this_process(now()), host="elsewhere", boot="another", pid=4)


def another(bench: Bench) -> Context:
    """A process of another machine, on the same journal."""

    class Another(Context):
        def lease(self) -> Lease:
            return elsewhere(bench.clock)

        def claim(self, lease: Lease | None) -> Claim:
            return Claim.FREE if lease is None else Claim.SILENT

    here = bench.context()
    return Another(
        owner=here.owner, journal=here.journal, clouds=here.clouds, tasks=here.tasks, clock=here.clock
    )


def paused(bench: Bench, moment: str, meanwhile: Callable[[], object]) -> None:
    """While a launch is before, between or after the tries of its create call, others go on."""

    class Paused(MemoryProvider):
        def prepare(self, order: Order, record: Record, /) -> Request:
            request = super().prepare(order, record)
            if moment == "before":
                meanwhile()
            return request

        def create(self, request: Request, /) -> Sequence[Machine]:
            try:
                machines = super().create(request)
            except CloudSaid:
                if moment == "between":
                    meanwhile()
                raise
            if moment == "after":
                meanwhile()
            return machines

    bench.kind = Paused


def ended_elsewhere(bench: Bench, *, after: timedelta = timedelta()) -> None:
    """Another process takes the box over and ends it, as far as it can."""
    bench.clock.sleep(after.total_seconds())
    context = another(bench)
    taken = context.take(context.journal.box("b-1"))
    assert taken is not None
    with suppress(CleanupIncompleteError):
        take_down(context, taken, budget_s=1)
    context.journal.release(taken)


def creates(bench: Bench) -> int:
    """How many create calls were sent."""
    return sum(call.action == "create" for call in bench.providers[0].cloud.calls)


# --- who holds


def test_a_holder_of_another_machine_keeps_its_box_while_it_renews_the_lease(bench: Bench) -> None:
    """A settle long after the launch began leaves a box to a process that cannot be asked, but renews."""
    context = another(bench)
    launch(context, bench.purchase())
    for _ in range(60):
        bench.clock.sleep(LEASE_TIMEOUT.total_seconds() - 1)
        context.journal.renew()
        assert settle(bench.context()) == []
    assert bench.machines() == 1


def test_a_holder_that_does_not_renew_its_lease_loses_the_box(bench: Bench) -> None:
    """Whoever works on another machine and has died there leaves remains, after 45 seconds."""
    launch(another(bench), bench.purchase())
    bench.clock.sleep(LEASE_TIMEOUT.total_seconds())
    settle(bench.context(), budget_s=300)
    assert bench.machines() == 0


def test_leases_age_by_the_clock_of_the_file_system_and_not_of_the_host(tmp_path: Path) -> None:
    """Two hosts whose clocks are hours apart agree on how old a lease is: they share the file."""
    slow = Journal.open(tmp_path / "journal.db", Clock())
    fast = Journal.open(tmp_path / "journal.db", lambda: Clock()() + timedelta(hours=3))
    assert abs(fast.now() - slow.now()) < timedelta(seconds=30)


def test_what_a_process_holds_is_renewed_while_it_waits_for_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewal needs nothing of the thread that works."""
    renewed = threading.Event()

    def ticking() -> Callable[[], object]:
        clock = Clock()

        def tick() -> object:
            clock.sleep(1)
            if clock() > Clock()() + timedelta(seconds=5):
                renewed.set()
            return clock()

        return tick

    monkeypatch.setattr("gpucloud.journal.leases.BEAT_EVERY_S", 0.01)
    journal = Journal.open(tmp_path / "journal.db", Clock(), lease_clock=ticking())  # type: ignore[arg-type]
    with renewing(journal):
        box = planned(journal)
        assert renewed.wait(30)
    now = journal.box(box.id)
    assert now.lease is not None
    assert box.lease is not None
    assert now.lease.beat > box.lease.beat
    assert (now.epoch, len(journal.history(box.id))) == (box.epoch, 1), "a renewal is no event"


def test_what_was_taken_over_is_not_renewed_by_who_lost_it(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.db", Clock())
    other = Journal.open(tmp_path / "journal.db", Clock())
    box = planned(journal)
    taken = other.take(box, elsewhere(Clock()), claim=lambda _: Claim.SILENT)
    journal.renew()
    assert taken is not None
    assert other.box(box.id).lease == taken.lease


def planned(journal: Journal) -> Box:
    return journal.plan(
        Box,
        id="b-1",
        name="x",
        owner="u",
        run_id=None,
        op="o",
        expires_at=None,
        facts=Facts(),
        lease=this_process(journal.now()),
    )


# --- who lost


@pytest.mark.parametrize("by_force", [False, True])
def test_a_box_is_taken_from_a_living_holder_by_force_alone(bench: Bench, by_force: bool) -> None:
    context = bench.context()
    box = planned(context.journal)
    taken = context.journal.take(box, elsewhere(bench.clock), claim=lambda _: Claim.HELD, by_force=by_force)
    assert (taken is not None) is by_force
    if taken is not None:
        with pytest.raises(StaleWriterError):
            context.journal.write(box, StateChanged(state=BoxState.FAILED))
        with pytest.raises(StaleWriterError):
            context.journal.held(box)
        context.journal.release(box)
        assert context.journal.box(box.id).lease == taken.lease, "who lost it cannot give it back"


def test_a_launch_that_was_paused_before_its_create_call_does_not_make_it(bench: Bench) -> None:
    """The lease is looked at again directly before the billable call."""
    paused(bench, "before", lambda: ended_elsewhere(bench, after=timedelta(hours=1)))
    with pytest.raises(GpucloudError):
        launch(bench.context(), bench.purchase())
    assert creates(bench) == 0
    assert bench.billed() == []


def test_a_launch_that_was_paused_between_two_tries_of_its_create_call_makes_no_second_one(
    bench: Bench,
) -> None:
    """The lease is looked at before each try: between two of them nothing is written that would tell."""
    cloud = bench.providers[0].cloud
    cloud.fail("create", cloud.say(ErrorClass.THROTTLED))
    paused(bench, "between", lambda: ended_elsewhere(bench))
    with pytest.raises(GpucloudError):
        launch(bench.context(), bench.purchase())
    assert creates(bench) == 1
    assert bench.billed() == []


def test_a_launch_that_was_paused_in_its_create_call_ends_what_that_has_made(bench: Bench) -> None:
    """Its own write is refused: the journal is another's. The machines are ended by their ids."""
    bench.providers[0].cloud.listed = Pace(looks=10_000)  # whoever takes over is shown nothing of it
    paused(bench, "after", lambda: ended_elsewhere(bench, after=timedelta(hours=1)))
    context = bench.context()
    with pytest.raises(GpucloudError):
        launch(context, bench.purchase())
    assert creates(bench) == 1
    assert bench.billed() == []


def test_a_launch_does_not_wait_for_a_machine_that_was_ended_elsewhere_on_a_cloud_that_forgets(
    tmp_path: Path,
) -> None:
    """What has ended is not shown there, as what is not shown yet."""
    clock, ended = Clock(), list[Ref]()
    bench = Bench(tmp_path, clock, [MemoryProvider.named("azure", clock=clock)])
    traits = bench.providers[0].ability(Traits)
    assert traits is not None
    assert traits.forgets_ended

    class Watched(MemoryProvider):
        def get(self, ref: Ref, /) -> Resource:
            if not ended:
                ended.append(ref)
                ended_elsewhere(bench)
            return super().get(ref)

    bench.kind = Watched
    began = clock()
    with pytest.raises(StaleWriterError):
        launch(bench.context(), bench.purchase())
    assert clock() - began < timedelta(minutes=1), "it would wait for ten"


def test_whoever_takes_over_looks_again_after_the_window_for_a_call_that_may_leave_later(
    bench: Bench,
) -> None:
    """The call of an hour ago was never sent; a holder that is not proven dead may send it right now."""
    context = bench.context()
    box = planned_with_an_open_intent(bench, context)
    bench.clock.sleep(3600)
    taken = another(bench).take(box)
    assert taken is not None
    with pytest.raises(CleanupIncompleteError):
        take_down(another(bench), taken, budget_s=CONSISTENCY_WINDOW.total_seconds() / 2)
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds() / 2)
    assert take_down(another(bench), taken, budget_s=60).state is BoxState.DELETED


def test_a_call_of_a_process_that_is_proven_dead_counts_from_when_it_may_have_left(bench: Bench) -> None:
    """Nobody can send it any more: what has not shown up within the window was never made."""
    context = bench.context()
    box = planned_with_an_open_intent(bench, context)
    context.journal.release(box)
    bench.clock.sleep(3600)
    taken = another(bench).take(context.journal.box(box.id))
    assert taken is not None
    assert take_down(another(bench), taken, budget_s=60).state is BoxState.DELETED


def planned_with_an_open_intent(bench: Bench, context: Context) -> Box:
    box = planned(context.journal)
    place: dict[str, Any] = {
        "cloud": "aws",
        "account": bench.providers[0].cloud.account,
        "region": "us-east-1",
        "zone": "use1-az4",
    }
    intent: dict[str, Any] = {
        "intent": "o.1",
        "op": "o",
        "token": "t",
        "name": "n",
        "facts": Facts(place=Place(cloud="aws", region="us-east-1")),
    }
    context.journal.write(box, Intended(**{**place, **intent}))
    context.journal.write(box, Hashed(intent="o.1", request_hash="h"))
    return box


def being_ended_elsewhere(bench: Bench) -> tuple[Box, Context, Box]:
    """A box as who launched it has it; another process, and the box as that has it, which began to end it."""
    context = bench.context()
    box = launch(context, bench.purchase())
    other = another(bench)
    taken = other.journal.take(box, other.lease(), claim=lambda _: Claim.HELD, by_force=True)
    assert taken is not None
    other.journal.write(taken, StateChanged(state=BoxState.DELETING))
    return box, other, taken


def test_an_end_that_another_process_takes_over_is_waited_for(bench: Bench) -> None:
    """Two teardowns of one box: the first one's writes are refused; it returns when the second is through."""
    box, other, taken = being_ended_elsewhere(bench)
    first = replace(bench.context(), tasks=Meanwhile(bench, lambda: take_down(other, taken, budget_s=60)))
    assert take_down(first, box, budget_s=600).state is BoxState.DELETED
    assert bench.billed() == []


def test_an_end_whose_new_holder_dies_is_finished_by_the_old_one(bench: Bench) -> None:
    box, _, _ = being_ended_elsewhere(bench)
    assert take_down(bench.context(), box, budget_s=600).state is BoxState.DELETED
    assert bench.billed() == []


class Meanwhile(Tasks):
    """Something else happens in the first pause."""

    def __init__(self, bench: Bench, happens: Callable[[], object]) -> None:
        super().__init__(bench.clock.sleep)
        self._happens = [happens]

    def pause(self, seconds: float) -> None:
        """Pauses."""
        while self._happens:
            self._happens.pop()()
        super().pause(seconds)


# --- what was seen


def test_what_was_seen_before_a_box_was_taken_over_is_dropped(bench: Bench) -> None:
    """A slow `list --live` cannot bring back what a `down` has ended meanwhile."""
    context = bench.context()
    box = planned(context.journal)
    assert context.journal.observe(box, Facts(timers=("t-1",)))
    assert another(bench).take(box) is not None
    assert not context.journal.observe(box, Facts(timers=("t-2",)))
    assert context.journal.box(box.id).timers == ("t-1",)


def test_what_was_seen_of_a_state_that_is_over_is_dropped(bench: Bench) -> None:
    context = bench.context()
    box = planned(context.journal)
    assert not context.journal.observe(box, state=BoxState.INTERRUPTED)
    context.journal.write(box, StateChanged(state=BoxState.FAILED))
    assert not context.journal.observe(box, Facts(timers=("t-1",)))


# --- a signal


def test_a_signal_during_a_create_does_not_make_a_silent_try_a_refused_one(bench: Bench) -> None:
    """The first try had no answer, a signal came, the second was refused: the first may have made it."""
    cloud = bench.providers[0].cloud
    context = bench.context()

    class Signalled(MemoryProvider):
        def create(self, request: Request, /) -> Sequence[Machine]:
            context.tasks.signum = signal.SIGTERM
            return super().create(request)

    bench.kind = Signalled
    cloud.fail("create", ConnectionLost())
    cloud.fail("create", cloud.say(ErrorClass.CAPACITY), nth=2, times=99)
    context = replace(bench.context(), tasks=context.tasks)
    with pytest.raises((InterruptedBySignal, CleanupIncompleteError)):
        launch(context, bench.purchase(bench.offers("us-east-1/use1-az4")))
    assert [intent.status for intent in context.journal.intents()] == ["watched"]
