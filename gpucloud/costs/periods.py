"""Charge periods: time split at the starts of hours, days or months in UTC."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gpucloud.costs.spend import months

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Granularity(StrEnum):
    """The longest period of one charge."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


_LENGTHS = {Granularity.HOUR: timedelta(hours=1), Granularity.DAY: timedelta(days=1)}


def periods(start: datetime, end: datetime, granularity: Granularity) -> Iterator[tuple[datetime, datetime]]:
    """An interval, split at the starts of hours, days or months in UTC."""
    if granularity is Granularity.MONTH:
        yield from months(start, end)
        return
    length = _LENGTHS[granularity]
    while start < end:
        following = _EPOCH + ((start - _EPOCH) // length + 1) * length
        yield start, min(following, end)
        start = following
