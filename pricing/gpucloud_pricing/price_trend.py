"""Trends of prices: the price at each of some moments, and a sparkline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from gpucloud_pricing.history import Span

_BARS = "▁▂▃▄▅▆▇█"


def moments(first: datetime, last: datetime, count: int) -> list[datetime]:
    """A number of evenly spaced moments, the last of which is the end."""
    step = (last - first) / count
    return [last - step * left for left in range(count - 1, -1, -1)]


def trend(spans: Iterable[Span], at: Sequence[datetime]) -> list[Decimal | None]:
    """The price of one series at some moments; ``None`` where it was not sold, or not fetched yet.

    Args:
        spans: the spans of one series, oldest first.
        at: the moments, oldest first.
    """
    found: list[Decimal | None] = []
    left = iter(spans)
    span = next(left, None)
    for moment in at:
        while span is not None and span.ended is not None and span.ended <= moment:
            span = next(left, None)
        found.append(span.price.amount if span is not None and span.since <= moment else None)
    return found


def sparkline(values: Sequence[Decimal | None]) -> str:
    """Values as bars between the lowest and the highest; a blank for a missing value."""
    known = [value for value in values if value is not None]
    if not known:
        return " " * len(values)
    low, high = min(known), max(known)
    reach = high - low

    def bar(value: Decimal) -> str:
        return _BARS[int((value - low) / reach * (len(_BARS) - 1))] if reach else _BARS[0]

    return "".join(" " if value is None else bar(value) for value in values)
