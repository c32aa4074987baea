"""What does not depend on each other ends at the same time; one that is refused keeps none of the others."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from threading import Barrier

import pytest

from gpucloud.clouds.provider import DeletionGraph
from gpucloud.ending.down import AT_ONCE as MOST
from gpucloud.ending.down import end_all
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError, ErrorClass, GpucloudError
from gpucloud.journal.events import Made, Released, StateChanged, Taken, named
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.purchase.failover import launch
from gpucloud.resources import Ref, ResourceKind
from tests.bench import OWNER, Bench
from tests.builders import Clock, a_ref, some_tags
from tests.memory import TOKEN_ATOMIC, MemoryProvider, Pace
from tests.memory.faults import CloudSaid
from tests.waiting import PATIENCE_S

AT_ONCE = 3


def ready(bench: Bench, box: str, nodes: int = 1) -> Box:
    context = bench.context()
    made = launch(context, bench.purchase(box=box, name=box, nodes=nodes))
    context.journal.write(made, StateChanged(state=BoxState.READY))
    context.journal.release(made)
    return context.journal.box(box)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])


class Meeting(MemoryProvider):
    """Answers no deletion of a machine before several were asked for."""

    barrier = Barrier(AT_ONCE)

    def delete(self, ref: Ref, /) -> None:
        if ref.kind is ResourceKind.INSTANCE:
            self.barrier.wait(PATIENCE_S)
        super().delete(ref)


def test_the_nodes_of_a_box_end_at_the_same_time(bench: Bench) -> None:
    box = ready(bench, "b-1", nodes=AT_ONCE)
    bench.kind = Meeting
    assert take_down(bench.context(), box, budget_s=600).state is BoxState.DELETED


def test_several_boxes_end_at_the_same_time(bench: Bench) -> None:
    boxes = [ready(bench, f"b-{number}") for number in range(AT_ONCE)]
    bench.kind = Meeting
    troubles: list[GpucloudError] = []
    ended = end_all(bench.context(), boxes, troubles)
    assert [(box.name, box.state) for box in ended] == [(box.name, BoxState.DELETED) for box in boxes]
    assert troubles == []


class Crowd(Meeting):
    """Answers no deletion of a machine before as many were asked for as there may be at once."""

    barrier = Barrier(MOST)


def test_of_many_boxes_a_bounded_number_ends_at_a_time(bench: Bench) -> None:
    """As the journal tells it: who ends a box takes it first, and releases it at last."""
    boxes = [ready(bench, f"b-{number:02}") for number in range(2 * MOST)]
    journal, bench.kind = bench.context().journal, Crowd
    _, before = journal.since(most=10_000)
    troubles: list[GpucloudError] = []
    ended = end_all(bench.context(), boxes, troubles)
    assert ([box.state for box in ended], troubles) == ([BoxState.DELETED] * len(boxes), [])
    events, _ = journal.since(before, most=10_000)
    steps = [{Taken: 1, Released: -1}.get(type(each.event), 0) for each in events]
    assert max(accumulate(steps)) == MOST


def test_boxes_that_never_end_leave_time_for_the_others(tmp_path: Path) -> None:
    """All threads are taken by them at first."""
    clock = Clock()
    clouds = [MemoryProvider.named(name, temperament=TOKEN_ATOMIC, clock=clock) for name in ("aws", "azure")]
    bench = Bench(tmp_path, clock, clouds)
    stuck = [ready(bench, f"b-{number:02}") for number in range(MOST)]
    bench.providers = clouds[::-1]
    others = [ready(bench, f"c-{number}") for number in range(2)]
    clouds[0].cloud.ends = Pace(seconds=36000)
    troubles: list[GpucloudError] = []
    ended = end_all(bench.context(), [*stuck, *others], troubles)
    assert [box.name for box in ended] == ["c-0", "c-1"]
    assert [type(trouble) for trouble in troubles] == [CleanupIncompleteError] * MOST


class Stubborn(MemoryProvider):
    """Does not end the first machine that it is asked about."""

    kept: str | None = None

    def delete(self, ref: Ref, /) -> None:
        if ref.kind is ResourceKind.INSTANCE:
            Stubborn.kept = Stubborn.kept or ref.id
            if ref.id == Stubborn.kept:
                code, status = self.cloud.temperament.codes[ErrorClass.AUTH]
                raise CloudSaid(code, status=status)
        super().delete(ref)


def test_a_node_that_cannot_be_ended_keeps_none_of_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal says of each what became of it, and the error names the one that is not ending."""
    monkeypatch.setattr(Stubborn, "kept", None)
    box = ready(bench, "b-1", nodes=AT_ONCE)
    bench.kind = Stubborn
    with pytest.raises(CleanupIncompleteError) as raised:
        take_down(bench.context(), box, budget_s=600)
    assert Stubborn.kept in [each["id"] for each in raised.value.left]
    rows = bench.context().journal.resources("b-1")
    states = {row.ref.id: row.state for row in rows if row.ref.kind is ResourceKind.INSTANCE}
    assert states.pop(str(Stubborn.kept)) == "made"
    assert list(states.values()) == ["delete_asked"] * (AT_ONCE - 1)


class OneInAnother(MemoryProvider):
    """Its networks lie in one another, as switches do."""

    @property
    def deletion(self) -> DeletionGraph:
        itself = {ResourceKind.NETWORK: (ResourceKind.INSTANCE, ResourceKind.NETWORK)}
        return DeletionGraph(held_by={ResourceKind.INSTANCE: (), **itself})


def test_of_a_kind_that_holds_itself_the_newest_goes_first_one_at_a_time(bench: Bench) -> None:
    box = ready(bench, "b-1")
    context = bench.context()
    for name in ("outer", "inner"):
        ref = a_ref(kind=ResourceKind.NETWORK, id=name, region=box.machine(0).region)
        bench.providers[0].cloud.add(ref, name, some_tags(owner=OWNER, box="b-1").as_dict())
        context.journal.write(box, Made(resource=named(ref, name)))
    bench.kind = OneInAnother
    assert take_down(bench.context(), context.journal.box("b-1"), budget_s=600).state is BoxState.DELETED
    asked = [call for call in bench.providers[0].cloud.calls if call.name in {"outer", "inner"}]
    first_of_outer = next(n for n, call in enumerate(asked) if call.name == "outer")
    assert [call.action for call in asked[:first_of_outer]][:2] == ["delete", "get"]
