"""Whoever waits for the end of a box is told for what, until when, and what the cloud said."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpucloud.ending import down
from gpucloud.ending.pending import SAY_EVERY_S
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError, GpucloudError
from gpucloud.purchase.failover import launch
from gpucloud.resources import Ref, ResourceKind
from tests.bench import Bench
from tests.builders import Clock
from tests.memory import BY_NAME_LONG_RUNNING, ConnectionLost, MemoryProvider


class Slow(MemoryProvider):
    """A cloud that takes its time for each deletion of a machine."""

    def delete(self, ref: Ref) -> None:
        if ref.kind is ResourceKind.INSTANCE:
            threading.Event().wait(0.5)
        super().delete(ref)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(
        tmp_path, clock, [MemoryProvider.named("aws", temperament=BY_NAME_LONG_RUNNING, clock=clock)]
    )


def said(bench: Bench) -> list[str]:
    return [text for _, text in bench.lines if text.startswith("waiting for the end of")]


def test_a_deletion_that_is_never_answered_is_spoken_of_every_15_seconds(bench: Bench) -> None:
    context = bench.context()
    box = launch(context, bench.purchase())
    bench.providers[0].cloud.fail("delete", ConnectionLost(), times=999)
    began = bench.clock()
    with pytest.raises(CleanupIncompleteError):
        take_down(context, box, budget_s=120)
    took_s = (bench.clock() - began).total_seconds()
    lines = said(bench)
    assert 2 <= len(lines) <= took_s / SAY_EVERY_S
    assert all(
        "instance vm-" in line and ", until " in line and "the last answer: " in line for line in lines
    )


def test_so_is_that_of_several_boxes_which_end_in_threads(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(down, "SAY_EVERY_S", 0.1)
    bench.kind = Slow
    context = bench.context()
    boxes = [launch(context, bench.purchase(box=f"b-{number}", name=f"x{number}")) for number in range(2)]
    for box in boxes:
        context.journal.release(box)
    troubles: list[GpucloudError] = []
    assert len(down.end_all(context, boxes, troubles)) == 2
    assert troubles == []
    assert said(bench)[0].count("instance ") == 2
