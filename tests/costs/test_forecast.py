"""What a period will cost, and which days have cost more than is usual: figures computed by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from gpucloud.costs.anomalies import charges_by_day, unusual_days, usd_by_day
from gpucloud.costs.budgets import with_forecast
from gpucloud.costs.forecast import forecast, new_by_day
from gpucloud.journal.budgets import Per
from gpucloud.journal.facts import Price, Usage
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud_pricing.outliers import usual
from tests.builders import a_box
from tests.costs.test_budgets import MARKET, NOW, a_budget, billed, standing

DAY = timedelta(days=1)
TODAY = date(2026, 11, 20)
LONG_AGO = NOW - 400 * DAY


def of_day(back: int, usd: int) -> Box:
    """A box that was begun that many days ago, at noon, and has cost so much in its only hour."""
    start = NOW - back * DAY
    price = Price(amount=Decimal(usd), currency="USD")
    usage = Usage(
        box="b", resource="i", part="compute", start=start, end=start + timedelta(hours=1), price=price
    )
    return a_box(id=f"b-{back}", created_at=start, usage=(usage,), state=BoxState.DELETED, expires_at=start)


def test_a_forecast_adds_new_boxes_as_on_the_last_days() -> None:
    """0, 10, … 130: the mean is 65, the percentiles lie at 1.3 and 11.7 steps of 10."""
    found = forecast(Decimal(100), [Decimal(10 * day) for day in range(14)], timedelta(days=2, hours=12))
    assert found.amount == 100 + Decimal("2.5") * 65
    assert found.low == 100 + Decimal("2.5") * 13
    assert found.high == 100 + Decimal("2.5") * 117
    assert not found.is_flat


def test_a_short_history_expects_nothing_and_says_so() -> None:
    found = forecast(Decimal(100), [Decimal(50)] * 6, 10 * DAY)
    assert [found.amount, found.low, found.high] == [100, 100, 100]
    assert found.is_flat
    assert found.document("USD")["flat"] is True
    assert not forecast(Decimal(100), [Decimal(50)] * 7, 10 * DAY).is_flat


def test_the_days_that_count_are_whole_ones_that_the_journal_knows() -> None:
    boxes = [of_day(back, 10 + back) for back in (0, 1, 3, 14, 15)]
    sums = new_by_day(boxes, lambda box: box.usage[0].price.amount, LONG_AGO, NOW)  # type: ignore[union-attr]
    assert sums == [11, 0, 13, *[0] * 10, 24], "today is not over, and the 15th day is too old"
    assert len(new_by_day(boxes, lambda _: Decimal(1), NOW - 3 * DAY, NOW)) == 2
    assert new_by_day([], lambda _: Decimal(1), None, NOW) == []


def test_the_forecast_of_a_budget_is_of_its_period_and_of_what_it_matches() -> None:
    """Each of the last 14 days had a box of 7 dollars; the month has ten and a half days left."""
    boxes = [*(of_day(back, 7) for back in range(1, 15)), billed(3, ends_in=5, created_at=NOW - 3 * HOUR)]
    month = with_forecast(standing(boxes), boxes, LONG_AGO, NOW, MARKET).forecast
    assert month is not None
    assert month.amount == 14 * 7 + 6 + 10 + Decimal("10.5") * 7
    assert month.low == month.high == month.amount
    total = a_budget(per=Per.TOTAL)
    assert with_forecast(standing(boxes, total), boxes, LONG_AGO, NOW, MARKET).forecast is None


HOUR = timedelta(hours=1)


def test_what_is_usual_is_robust() -> None:
    """The median of 1 … 9 is 5, that of the distances 2: one outlier moves neither."""
    values = [Decimal(each) for each in (1, 2, 3, 4, 5, 6, 7, 8, 1000)]
    found = usual(values)
    assert found is not None
    assert [found.middle, found.most] == [5, 5 + 3 * Decimal("1.4826") * 2]
    assert usual(values[:6]) is None, "too few"


@pytest.mark.parametrize(
    ("today", "is_unusual"),
    [(Decimal("30"), False), (Decimal("30.01"), True)],
    ids=["20 dollars more", "above"],
)
def test_a_day_is_unusual_by_twenty_dollars_and_three_deviations(today: Decimal, is_unusual: bool) -> None:
    """Every day cost 10: nothing deviates, and 20 more are needed."""
    usd = {TODAY - each * DAY: Decimal(10) for each in range(1, 40)}
    found = unusual_days({**usd, TODAY: today}, LONG_AGO, NOW)
    assert [each.day for each in found] == ([TODAY] if is_unusual else [])


def test_where_days_differ_much_a_day_must_differ_more() -> None:
    """Days cost 0 and 100 by turns: the median is 50, so is that of the distances; 272.39 is usual."""
    usd = {TODAY - each * DAY: Decimal(100 * (each % 2)) for each in range(1, 60)}
    assert unusual_days({**usd, TODAY: Decimal(272)}, LONG_AGO, NOW) == []
    [found] = unusual_days({**usd, TODAY: Decimal(273)}, LONG_AGO, NOW)
    assert found.text == "2026-11-20: boxes have cost $273.00, usual are $50.00 a day and at most $272.39"
    young = datetime(2026, 11, 15, tzinfo=UTC)
    assert unusual_days({**usd, TODAY: Decimal(273)}, young, NOW) == [], "five days say nothing"


def test_what_boxes_cost_is_split_by_day_and_converted() -> None:
    yuan = billed(13, ends_in=1, currency="CNY", usd="10")
    charged = charges_by_day([yuan], NOW, MARKET.billing_of)
    found = usd_by_day(charged, lambda amount, _: amount / 10)
    assert found == {TODAY: Decimal(12), TODAY - DAY: Decimal(1)}
