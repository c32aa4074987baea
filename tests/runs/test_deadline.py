"""When a run says that its box ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpucloud.runs.deadline import Deadline

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_the_end_is_said_at_first_again_shortly_before_and_whenever_it_was_moved() -> None:
    deadline, end = Deadline("box"), NOW + timedelta(hours=6)
    assert deadline.news(end, NOW) == (
        "box ends at 2026-01-05T18:00:00Z, in 6 h 0 min, with what runs on it. "
        "To move that: gpucloud extend box --ttl TIME"
    )
    assert deadline.news(end, NOW + timedelta(hours=5)) is None
    near = deadline.news(end, end - timedelta(minutes=15))
    assert near is not None
    assert "in 15 min" in near
    assert deadline.news(end, end - timedelta(minutes=14)) is None
    later = end + timedelta(hours=1)
    moved = deadline.news(later, end - timedelta(minutes=14))
    assert moved is not None
    assert "in 1 h 14 min" in moved
    again = deadline.news(later, later - timedelta(minutes=10))
    assert again is not None
    assert "in 10 min" in again
    assert deadline.news(None, later) == "box has no end any more"


def test_an_end_that_is_near_from_the_beginning_is_said_once() -> None:
    deadline, end = Deadline("box"), NOW + timedelta(minutes=10)
    assert deadline.news(end, NOW) is not None
    assert deadline.news(end, NOW + timedelta(minutes=5)) is None
    assert Deadline("box").news(None, NOW) is None
