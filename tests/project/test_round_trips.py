"""The benchmark of the critical path counts what was waited for one after another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.round_trips import round_trips

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)


def call(came_s: float, took_s: float = 1.0) -> dict[str, object]:
    return {"at": (BEGIN + timedelta(seconds=came_s)).isoformat(), "milliseconds": took_s * 1000}


@pytest.mark.parametrize(
    ("calls", "trips"),
    [
        ([], 0),
        ([call(0)], 1),
        ([call(0), call(0.2), call(0.4)], 1),
        ([call(0), call(1.0), call(2.1)], 3),
        ([call(0), call(0.5), call(1.01), call(1.6)], 2),
        ([call(0, 5), call(0), call(1.2), call(2.3)], 3),
    ],
)
def test_the_longest_chain_is_counted(calls: list[dict[str, object]], trips: int) -> None:
    assert round_trips(calls) == trips
    assert round_trips(reversed(calls)) == trips
