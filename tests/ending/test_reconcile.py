"""The engine's rarer ways, on clouds in memory: who gives up, who was faster, who does not answer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.clouds.provider import PartialCreateError
from gpucloud.ending.discovery import begin, finish
from gpucloud.ending.reconcile import refresh, refresh_all, remains, settle
from gpucloud.ending.recover import adopt_found
from gpucloud.ending.sweep import end, look
from gpucloud.ending.teardown import take_down
from gpucloud.errors import (
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    NoOfferError,
    Scope,
    UsageError,
)
from gpucloud.journal.events import Gone, Made, StateChanged, named
from gpucloud.journal.leases import this_process
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState, Claim, Lease
from gpucloud.journal.records import Box
from gpucloud.planning.plan import MAX_ATTEMPT_SECONDS
from gpucloud.purchase.failover import Tried, check_name, launch, replace_machines
from gpucloud.resources import (
    Identity,
    Machine,
    Permission,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
)
from gpucloud.runtime.context import Context
from gpucloud_pricing import Market
from gpucloud_templates import GUARD_LAST_WORDS
from tests.bench import OWNER, Bench
from tests.builders import START, Clock, a_ref
from tests.memory import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, ConnectionLost, MemoryProvider, Pace, Temperament


def a_bench(folder: Path, temperament: Temperament = TOKEN_ATOMIC) -> Bench:
    clock = Clock()
    return Bench(folder, clock, [MemoryProvider.named("aws", temperament=temperament, clock=clock)])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return a_bench(tmp_path)


def ready(bench: Bench, box: str = "b-1", **changes: Any) -> Box:
    """A box that its owner uses, and that no process holds."""
    context = bench.context()
    made = launch(context, bench.purchase(box=box, **changes))
    context.journal.write(made, StateChanged(state=BoxState.READY))
    context.journal.release(made)
    return context.journal.box(box)


def somebody() -> Lease:
    """A process that lives, and is not this one."""
    started = int(Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])
    return replace(this_process(Clock()()), pid=1, started=started)


# --- launching


def test_a_type_that_a_cloud_does_not_sell_is_asked_for_in_no_other_region(bench: Bench) -> None:
    here, there, elsewhere = bench.offers()
    tried = Tried(until=START)
    refusal = CloudError("no", error_class=ErrorClass.UNSUPPORTED, cloud="aws", scope=Scope.TYPE)
    tried.failed(here, refusal)
    assert [tried.skip(each) for each in (there, elsewhere)] == [True, True]
    assert not tried.skip(replace(elsewhere, instance_type="g5.xlarge"))


def test_with_nothing_to_try_nothing_is_tried(bench: Bench) -> None:
    learned = {(str(Scope.ACCOUNT), bench.providers[0].name)}
    with pytest.raises(NoOfferError, match="no offer could be tried"):
        launch(bench.context(), bench.purchase(learned=learned))
    assert bench.providers[0].cloud.mutating() == []


def test_the_last_word_counts_where_no_refusal_is_of_a_class_of_its_own(bench: Bench) -> None:
    tried = Tried(until=START)
    for number, offer in enumerate(bench.offers()):
        tried.failed(offer, CloudError(f"down {number}", error_class=ErrorClass.SERVER, cloud="aws"))
    assert tried.verdict().message == "none of 3 attempts started; the last: down 2"


def test_a_launch_goes_from_place_to_place_only_for_a_while(bench: Bench) -> None:
    cloud = bench.providers[0].cloud
    cloud.fail("create", cloud.say(ErrorClass.CAPACITY), times=99, delay_s=MAX_ATTEMPT_SECONDS + 1)
    with pytest.raises(CloudError) as caught:
        launch(bench.context(), bench.purchase())
    assert len(caught.value.attempts) == 1


def test_a_cloud_that_cannot_be_reached_is_no_reason_to_ask_it_again_elsewhere(bench: Bench) -> None:
    """Nothing was sent: nothing is owed, and the other zones are behind the same network."""
    bench.providers[0].cloud.fail("create", ConnectionLost(sent=False), times=999)
    with pytest.raises(CloudError) as caught:
        launch(bench.context(), bench.purchase())
    assert (len(caught.value.attempts), bench.billed()) == (1, [])


def test_what_a_refused_attempt_left_is_looked_for_again_later_where_it_cannot_be_read_now(
    bench: Bench,
) -> None:
    class Blind(MemoryProvider):
        def find(self, search: Search, /) -> SearchResult:
            raise self.cloud.say(ErrorClass.AUTH)

    bench.kind = Blind
    cloud = bench.providers[0].cloud
    cloud.fail("create", cloud.say(ErrorClass.CAPACITY))
    box = launch(bench.context(), bench.purchase())
    assert (box.place and box.place.zone, bench.machines()) == ("use1-az6", 1)


def test_machines_that_are_not_fit_are_replaced_by_others(bench: Bench) -> None:
    context = bench.context()
    box = launch(context, bench.purchase())
    [old] = bench.providers[0].cloud.machines()
    box = replace_machines(context, box, bench.purchase(), "a GPU is missing")
    [new] = bench.providers[0].cloud.machines()
    assert new.ref != old.ref
    assert (box.replaced, box.nodes[0].instance_id) == ("a GPU is missing", new.ref.id)


@pytest.mark.files
def test_a_journal_that_takes_no_more_keeps_no_machine_running(bench: Bench) -> None:
    """From the moment before the billable call: what it makes is ended by its tags."""
    bench.context()
    with closing(sqlite3.connect(bench.folder / "journal.db")) as connection:
        connection.execute(
            "CREATE TRIGGER no_more BEFORE INSERT ON events "
            "WHEN EXISTS (SELECT 1 FROM events WHERE type = 'hashed') BEGIN SELECT json('{'); END"
        )
    with pytest.raises(GpucloudError, match="the journal"):
        launch(bench.context(), bench.purchase())
    made = [entry for entry in bench.providers[0].cloud.ledger if entry.ref.kind is ResourceKind.INSTANCE]
    assert (len(made), bench.billed()) == (1, [])


@pytest.mark.parametrize("owed", [False, True])
def test_a_name_that_is_taken_is_refused_before_anything_is_asked(bench: Bench, owed: bool) -> None:
    """And where what a lost call made may still show, until when."""
    context = bench.context()
    if owed:
        bench.providers[0].cloud.fail("create", ConnectionLost(), times=999)
        with pytest.raises(CleanupIncompleteError):
            launch(context, bench.purchase())
    else:
        ready(bench)
    check_name(context, "y")
    with pytest.raises(UsageError) as caught:
        check_name(context, "x")
    assert ("may still appear until" if owed else "gpucloud down x") in str(caught.value.hint)


class CutOff(MemoryProvider):
    """Makes a machine, and cannot be reached for what comes after that."""

    def create(self, request: Request, /) -> Sequence[Machine]:
        super().create(request)
        raise PartialCreateError from ConnectionLost(sent=False)


def test_what_a_create_that_was_cut_off_has_made_is_ended(bench: Bench) -> None:
    """That its last call never left says nothing of the machine."""
    bench.kind = CutOff
    cloud = bench.providers[0].cloud
    cloud.listed = Pace()
    blind = [cloud.fail(action, ConnectionLost(), times=9999) for action in ("list", "delete")]
    with pytest.raises(CleanupIncompleteError):
        launch(bench.context(), bench.purchase())
    assert bench.machines() == 1
    for fault in blind:
        cloud.faults.remove(fault)
    assert settle(bench.context(), budget_s=300) == []
    assert bench.billed() == []


# --- settling


def test_what_holds_a_thing_of_ours_and_is_not_in_the_journal_is_ended_too(bench: Bench) -> None:
    """As in a box that was taken in from a list that lagged."""
    context = bench.context()
    box = ready(bench)
    for row in context.journal.resources(box.id):
        if row.ref.kind is not ResourceKind.GROUP:
            context.journal.write(box, Gone(resource=named(row.ref, row.name)))
    taken = context.take(box)
    assert taken is not None
    assert take_down(context, taken, budget_s=600).state is BoxState.DELETED
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds() + 1)
    for _ in range(3):
        assert settle(context, budget_s=300) == []
    assert bench.billed() == []


class WithClock(MemoryProvider):
    """A cloud that can be asked for the time."""

    credentials_hint = policy = ""

    def identity(self) -> Identity:
        raise NotImplementedError

    def permissions(self, region: str, /) -> Sequence[Permission]:
        raise NotImplementedError

    def server_time(self) -> datetime:
        return self.cloud.clock()


class SilentClock(WithClock):
    """A cloud that does not say what time it is."""

    def server_time(self) -> datetime:
        raise self.cloud.say(ErrorClass.AUTH)


def ahead(bench: Bench) -> Context:
    """A process on a machine whose clock is two hours ahead of the cloud's."""
    return replace(bench.context(), clock=lambda: bench.clock() + timedelta(hours=2))


@pytest.mark.parametrize(
    ("kind", "said"), [(WithClock, "not by that of aws"), (SilentClock, "did not report its time")]
)
def test_an_end_counts_only_where_the_clouds_clock_agrees(
    bench: Bench, kind: type[MemoryProvider], said: str
) -> None:
    ready(bench, expires_at=bench.clock() + timedelta(hours=1))
    bench.kind = kind
    [trouble] = settle(ahead(bench))
    assert said in str(trouble)
    assert bench.machines() == 1


def test_what_somebody_else_has_taken_meanwhile_is_left_to_them(bench: Bench) -> None:
    """Between our look at the journal and our hand on the box."""
    box = ready(bench, expires_at=bench.clock() + timedelta(hours=1))
    journal = bench.context().journal

    class Hurried(WithClock):
        def server_time(self) -> datetime:
            assert journal.take(box, somebody(), claim=lambda _: Claim.FREE)
            return self.cloud.clock() + timedelta(hours=2)

    bench.kind = Hurried
    assert settle(ahead(bench)) == []
    assert bench.machines() == 1


def test_what_cannot_be_finished_is_said_and_left_for_the_next_command(bench: Bench) -> None:
    box = ready(bench)
    cloud = bench.providers[0].cloud
    context = bench.context()
    context.journal.write(box, StateChanged(state=BoxState.DELETING))
    cloud.fail("delete", cloud.say(ErrorClass.AUTH), times=99)
    [trouble] = settle(context)
    assert isinstance(trouble, CleanupIncompleteError)
    assert [each.id for each in remains(context, context.journal.boxes(owner=OWNER))] == [box.id]


def test_second_looks_end_with_the_budget(bench: Bench) -> None:
    context = bench.context()
    for name in ("one", "two"):
        over = take_down(context, ready(bench, f"b-{name}", name=name), budget_s=60)
        context.journal.write(
            over, Made(resource=named(a_ref(kind=ResourceKind.GROUP, id=f"sg-{name}"), name))
        )
    calls = len(bench.providers[0].cloud.calls)
    assert settle(context, budget_s=0) == []
    assert len(bench.providers[0].cloud.calls) == calls


# --- looking


def test_a_cloud_that_does_not_answer_is_said_of_one_box_and_raised_for_one(bench: Bench) -> None:
    box = ready(bench)
    cloud = bench.providers[0].cloud
    cloud.fail("get", cloud.say(ErrorClass.AUTH), times=99)
    with pytest.raises(CloudError):
        refresh(bench.context(), box)
    assert [type(each) for each in refresh_all(bench.context(), [box])] == [CloudError]


def test_a_cloud_that_is_not_installed_any_more_is_said(bench: Bench) -> None:
    box = ready(bench)
    other = replace(bench, providers=[MemoryProvider.named("azure", clock=bench.clock)])
    [trouble] = refresh_all(other.context(), [box])
    assert "cloud 'aws' is not installed" in str(trouble)


def test_a_cloud_that_takes_too_long_is_said(bench: Bench) -> None:
    box = ready(bench)
    answer = threading.Event()

    class Slow(MemoryProvider):
        def get(self, ref: Ref, /) -> Resource:
            answer.wait(10)
            return super().get(ref)

    bench.kind = Slow
    [trouble] = refresh_all(bench.context(), [box], timeout_s=0.05)
    answer.set()
    assert "no answer within" in str(trouble)


@pytest.mark.parametrize("words", [GUARD_LAST_WORDS, "stopped by hand", None])
def test_a_stopped_box_has_ended_only_if_its_guard_says_so(tmp_path: Path, words: str | None) -> None:
    """Who stops a machine in the cloud's own console may want to start it again; silence says nothing."""

    class Console(MemoryProvider):
        def console(self, ref: Ref, /) -> str:
            if words is None:
                raise self.cloud.say(ErrorClass.AUTH)
            return f"boot of {ref.id}\n{words}\n"

    bench = a_bench(tmp_path, BY_NAME_LONG_RUNNING)
    bench.kind = Console
    box = ready(bench)
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    [machine] = bench.providers[0].cloud.machines()
    bench.providers[0].cloud.end(machine.ref)
    seen = refresh(bench.context(), box)
    assert seen.state is (BoxState.DELETING if words == GUARD_LAST_WORDS else BoxState.READY)


# --- the rest


def test_a_box_that_never_was_is_not_in_the_journal(bench: Bench) -> None:
    with pytest.raises(KeyError):
        bench.context().journal.box("b-none")


def test_a_sweep_leaves_a_box_to_who_works_on_it(bench: Bench) -> None:
    """Who took it in between the sweep's looks and its hand on the box."""
    context = bench.context()
    box = launch(context, bench.purchase())
    other = replace(bench, folder=bench.folder / "other")
    other.folder.mkdir()
    elsewhere = other.context()
    found = [f for _ in range(4) for f in look(elsewhere, owner=OWNER, older_than=timedelta()).finds]
    assert found
    recovered, _ = adopt_found(
        elsewhere, finish(elsewhere, begin(elsewhere, Search(owner=OWNER))), Market.load()
    )
    assert [each.id for each in recovered] == [box.id]
    assert elsewhere.journal.take(box, somebody(), claim=lambda _: Claim.FREE)
    [trouble] = end(elsewhere, found, Market.load())
    assert "another process works on" in str(trouble)
    assert bench.machines() == 1
