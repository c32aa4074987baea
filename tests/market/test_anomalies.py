"""Prices that are not as they should be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.market.anomalies import price_anomalies
from gpucloud.market.history import Series, series_of
from gpucloud_pricing import Market
from gpucloud_pricing.history import Span
from tests.builders import a_price

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MARKET = Market.load()


def spans(*amounts: tuple[str, float], **changes: Any) -> dict[Series, list[Span]]:
    """A price: each amount with how many days ago it began; the last one is in force."""
    prices = [(a_price(amount, **changes), NOW - ago * DAY) for amount, ago in amounts]
    ends = [*(since for _, since in prices[1:]), None]
    found = [
        Span(price=price, since=since, seen=end or NOW, ended=end)
        for (price, since), end in zip(prices, ends, strict=True)
    ]
    return {series_of(found[-1].price): found}


def told(*series: dict[Series, list[Span]]) -> list[tuple[str, Decimal | None]]:
    merged = {key: each for one in series for key, each in one.items()}
    return [(str(each.what), each.other) for each in price_anomalies(MARKET, merged, NOW)]


SPOT = {"purchase": "spot", "zone": "use1-az1"}
LIST = spans(("0.526", 300))


@pytest.mark.parametrize(
    ("now", "found"),
    [("0.22", []), ("0.2201", [("dearer", Decimal("0.2"))]), ("0.1", [])],
    ids=["a tenth more", "above", "cheaper"],
)
def test_a_spot_price_that_was_the_same_for_a_month_is_dearer_by_a_tenth(
    now: str, found: list[tuple[str, Decimal]]
) -> None:
    assert told(LIST, spans(("0.2", 40), (now, 0.1), **SPOT)) == found


def test_a_spot_price_that_moves_much_must_move_more() -> None:
    """0.2 and 0.3 by turns: the median is 0.25, and each is 0.05 away: 0.4724 is usual."""
    turns = [("0.2" if day % 2 else "0.3", float(day)) for day in range(31, 0, -1)]
    assert told(LIST, spans(*turns, ("0.47", 0.1), **SPOT)) == []
    assert told(LIST, spans(*turns, ("0.48", 0.1), **SPOT)) == [("dearer", Decimal("0.25"))]
    assert told(LIST, spans(("0.2", 5), ("0.48", 0.1), **SPOT)) == [], "five days say nothing"


def test_spot_above_on_demand_and_a_changed_list_price_are_always_told() -> None:
    assert told(LIST, spans(("0.53", 40), **SPOT)) == [("above-on-demand", Decimal("0.526"))]
    changed = spans(("0.526", 300), ("0.5", 0.5))
    assert told(changed) == [("list-changed", Decimal("0.526"))]
    assert told(spans(("0.526", 300), ("0.5", 1.5))) == [], "two days ago"
    assert told(spans(("0.526", 0.5))) == [], "it is new"


def test_a_price_that_no_gpu_of_its_model_has_is_not_believable() -> None:
    assert told(spans(("0.0001", 300))) == [("implausible", None)]
    assert told(LIST, spans(("500", 40), **SPOT)) == [("implausible", None)]


def test_a_finding_is_the_same_on_one_day_and_says_what_it_compares() -> None:
    [found] = price_anomalies(MARKET, LIST | spans(("0.53", 0.1), **SPOT), NOW)
    [later] = price_anomalies(MARKET, LIST | spans(("0.54", 0.05), **SPOT), NOW)
    assert found.key == later.key == "above-on-demand:aws:use1-az1:g4dn.xlarge:spot:2026-11-20"
    assert found.text == (
        "aws use1-az1 g4dn.xlarge spot costs more than on demand: $0.5300 instead of $0.5260 per hour"
    )
    assert found.document()["instead_of"] == {"amount": "0.526", "currency": "USD"}
