"""How prices went, at moments and as a line."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from gpucloud_pricing.history import Span
from gpucloud_pricing.price_trend import moments, sparkline, trend
from tests.builders import a_price

T0 = datetime(2026, 1, 5, tzinfo=UTC)


def span(amount: str, since: int, ended: int | None) -> Span:
    """A price from one day to another, counted from the first."""
    end = None if ended is None else T0 + timedelta(days=ended)
    return Span(
        price=a_price(amount, purchase="spot"),
        since=T0 + timedelta(days=since),
        seen=end or T0 + timedelta(days=since),
        ended=end,
    )


def days(*numbers: int) -> list[datetime]:
    return [T0 + timedelta(days=number) for number in numbers]


def test_the_price_at_each_moment_is_the_one_in_force() -> None:
    spans = [span("1", 1, 3), span("2", 3, 4), span("3", 6, None)]
    values = trend(spans, days(0, 1, 2, 3, 4, 5, 6, 9))
    assert values == [None, 1, 1, 2, None, None, 3, 3]


def test_moments_end_with_the_end_and_are_evenly_spread() -> None:
    assert moments(T0, T0 + timedelta(days=4), 4) == days(1, 2, 3, 4)


def test_the_lowest_is_the_smallest_bar_and_what_was_not_sold_is_blank() -> None:
    assert sparkline([Decimal(1), Decimal(8), None, Decimal("4.5")]) == "▁█ ▄"
    assert sparkline([Decimal(2), Decimal(2)]) == "▁▁"
    assert sparkline([None, None]) == "  "


@given(st.lists(st.none() | st.decimals("0.001", "999", places=3), max_size=30))
def test_a_line_has_a_character_for_each_value_and_keeps_their_order(values: list[Decimal | None]) -> None:
    line = sparkline(values)
    assert len(line) == len(values)
    shown = [(value, bar) for value, bar in zip(values, line, strict=True) if value is not None]
    assert all(a <= b for (v, a), (w, b) in itertools.pairwise(shown) if v <= w)
    assert all(bar == " " for value, bar in zip(values, line, strict=True) if value is None)
