"""Many machines of a region are read with one search; one that it lacks is looked for by its id."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpucloud.ending.reading import MANY
from gpucloud.ending.reconcile import refresh_all
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.resources import Search, SearchResult
from tests.bench import Bench
from tests.builders import Clock
from tests.ending.test_reconcile import ready
from tests.memory import TOKEN_ATOMIC, ConnectionLost, MemoryProvider


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bench with just enough boxes for a search."""
    clock = Clock()
    made = Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])
    for number in range(MANY):
        ready(made, f"b-{number}", name=f"box-{number}")
    clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    made.providers[0].cloud.calls.clear()
    return made


def asked(bench: Bench) -> dict[str, int]:
    """How often the cloud was asked, by the kind of call."""
    return Counter(call.action for call in bench.providers[0].cloud.calls)


def states(bench: Bench) -> Counter[BoxState]:
    """The states of the boxes."""
    return Counter(box.state for box in bench.context().journal.boxes(owner=None, over=True))


def test_many_machines_are_read_with_one_search_and_few_by_their_ids(bench: Bench) -> None:
    context = bench.context()
    boxes = context.journal.boxes(owner=context.owner)
    assert refresh_all(context, boxes) == []
    assert asked(bench).get("get", 0) == 0
    bench.providers[0].cloud.calls.clear()
    assert refresh_all(context, boxes[1:]) == []
    assert asked(bench)["get"] == MANY - 1
    assert states(bench) == {BoxState.READY: MANY}


def test_a_machine_that_the_search_lacks_is_read_by_its_id_before_anything_is_concluded(bench: Bench) -> None:
    class Lagging(MemoryProvider):
        def find(self, search: Search, /) -> SearchResult:
            return SearchResult(resources=super().find(search).resources[1:])

    bench.kind = Lagging
    context = bench.context()
    assert refresh_all(context, context.journal.boxes(owner=context.owner)) == []
    assert asked(bench)["get"] == 1
    assert states(bench) == {BoxState.READY: MANY}


def test_of_a_region_that_cannot_be_read_nothing_is_concluded(bench: Bench) -> None:
    bench.providers[0].cloud.fail("list", ConnectionLost(), times=99)
    context = bench.context()
    troubles = refresh_all(context, context.journal.boxes(owner=context.owner))
    assert [("could not be read" in each.message) for each in troubles] == [True] * MANY
    assert asked(bench).get("get", 0) == 0
    assert states(bench) == {BoxState.READY: MANY}
