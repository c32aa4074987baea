"""Who works on a box that another process holds: later, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpucloud.boxes.look import holding
from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import Claim
from gpucloud.purchase.failover import launch
from gpucloud.runtime.tasks import Tasks
from tests.bench import Bench
from tests.builders import Clock
from tests.ending.test_reconcile import somebody
from tests.memory import TOKEN_ATOMIC, MemoryProvider


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])


def test_a_short_hold_of_another_process_is_waited_for_and_a_long_one_is_not(bench: Bench) -> None:
    other = bench.context()
    box = launch(other, bench.purchase())
    taken = other.journal.take(box, somebody(), claim=lambda _: Claim.FREE)
    assert taken is not None
    pauses: list[float] = []

    def nap(seconds: float) -> None:
        pauses.append(seconds)
        if sum(pauses) > 6:
            other.journal.release(taken)

    context = replace(bench.context(), tasks=Tasks(nap, lambda: 0.0))
    for within_s, waited_s in ((0.0, 0.0), (5.0, 5.0)):
        with (
            pytest.raises(UsageError, match="another process works on box"),
            holding(context, box, within_s=within_s),
        ):
            pass
        assert sum(pauses) == waited_s
    with holding(context, box, within_s=5.0) as held:
        assert held.id == box.id
    assert sum(pauses) == 6.25
