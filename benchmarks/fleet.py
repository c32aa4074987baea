"""What is decided about a large cluster costs no time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from benchmarks.table import Row
from gpucloud import Cluster, NodeClass, Slot, SlotState, Spec
from gpucloud.elastic.rules import reconcile

SLOTS = 1000
RUNS = 5
BUDGET_S = 0.1
NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def seconds(work: Callable[[], object]) -> float:
    """The CPU seconds that some work takes, in the middle of several turns."""
    taken: list[float] = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def main() -> list[Row]:
    """Half of the slots of a class are up; some of these end, some are renewed, the others are launched."""
    cluster = Cluster(name="lab", classes={"t4": NodeClass(spec=Spec(gpu="T4"), max=SLOTS)})
    names = cluster.slots("t4")
    seen = [
        Slot(
            name=name,
            gang=(name,),
            node_class="t4",
            state=SlotState.READY,
            since=NOW,
            expires_at=NOW + timedelta(minutes=number % 60),
        )
        for number, name in enumerate(names[: SLOTS // 2])
    ]
    wanted = dict.fromkeys(names[SLOTS // 10 :], NOW)
    taken_s = seconds(lambda: reconcile(cluster, wanted, seen, {}, NOW))
    return [Row(f"reconcile of {SLOTS:,} slots", BUDGET_S, taken_s, 1)]


def short() -> list[Row]:
    """The same: it takes a moment."""
    return main()
