"""How prices went: what was in force at each of some moments, and as a line of characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from gpucloud_pricing.history import Span

_BARS = "▁▂▃▄▅▆▇█"


def moments(first: datetime, last: datetime, count: int) -> list[datetime]:
    """So many moments, evenly spread, the last of which is the end."""
    step = (last - first) / count
    return [last - step * left for left in range(count - 1, -1, -1)]


def trend(spans: Iterable[Span], at: Sequence[datetime]) -> list[Decimal | None]:
    """The price of one thing at some moments, in order; ``None`` where it was not sold, or not asked for yet.

    Args:
        spans: of one thing, oldest first.
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
    """Values as bars between the lowest and the highest; a blank where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return " " * len(values)
    low, high = min(known), max(known)
    reach = high - low

    def bar(value: Decimal) -> str:
        return _BARS[int((value - low) / reach * (len(_BARS) - 1))] if reach else _BARS[0]

    return "".join(" " if value is None else bar(value) for value in values)
