"""The history of prices: what was true when, whatever came of the refreshes in between."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud_pricing import Commitment, Money, Price
from gpucloud_pricing.history import VERSION, Coverage, HistoryError, PriceHistory, SetAside
from gpucloud_pricing.values import SavingsPlan
from tests.builders import START, a_price, an_instance_type

T0 = START
DAY = timedelta(days=1)
SCOPE = Coverage(cloud="aws", source="list")
KIND = an_instance_type()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[PriceHistory]:
    with closing(PriceHistory.open(tmp_path / "prices.db")) as opened:
        yield opened


def price(amount: str = "0.526", **changes: Any) -> Price:
    """The price of a T4; the day is of no account here: it is that of the answer."""
    return a_price(amount, source="list", **changes)


def told(history: PriceHistory) -> list[tuple[str, str, timedelta, timedelta, timedelta | None]]:
    """Region, amount, since, seen and ended of each span, as time after the first answer."""
    return [
        (s.price.region, str(s.price.amount), s.since - T0, s.seen - T0, s.ended - T0 if s.ended else None)
        for s in history.spans([KIND])
    ]


def test_a_price_that_stays_is_one_span(history: PriceHistory) -> None:
    for day in range(3):
        history.record("all", SCOPE, [price()], T0 + day * DAY)
    assert told(history) == [("us-east-1", "0.526", 0 * DAY, 2 * DAY, None)]
    assert [each.as_of for each in history.current(KIND)] == [(T0 + 2 * DAY).date()]


def test_a_price_that_moves_ends_and_another_begins(history: PriceHistory) -> None:
    history.record("all", SCOPE, [price("0.526")], T0)
    recorded = history.record("all", SCOPE, [price("0.60")], T0 + DAY)
    assert [(c.before and c.before.amount, c.after and c.after.amount) for c in recorded.moved] == [
        (Decimal("0.526"), Decimal("0.60"))
    ]
    assert told(history) == [
        ("us-east-1", "0.526", 0 * DAY, 0 * DAY, DAY),
        ("us-east-1", "0.60", DAY, DAY, None),
    ]


def test_an_upfront_payment_that_moves_is_another_price(history: PriceHistory) -> None:
    paid = {"purchase": "reserved_1y", "terms": "all upfront"}
    history.record("all", SCOPE, [price(upfront=Decimal(100), **paid)], T0)
    assert len(history.record("all", SCOPE, [price(upfront=Decimal(90), **paid)], T0 + DAY).moved) == 1


def test_what_is_not_listed_any_more_is_not_in_force(history: PriceHistory) -> None:
    """And what comes back begins anew: it was not sold in between."""
    history.record("all", SCOPE, [price(), price(region="eu-west-1")], T0)
    assert history.record("all", SCOPE, [price()], T0 + DAY).gone == 1
    assert [each.region for each in history.current(KIND)] == ["us-east-1"]
    history.record("all", SCOPE, [price(), price(region="eu-west-1")], T0 + 2 * DAY)
    assert told(history)[1:] == [
        ("us-east-1", "0.526", 0 * DAY, 2 * DAY, None),
        ("eu-west-1", "0.526", 2 * DAY, 2 * DAY, None),
    ]


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"regions": ["eu-west-1"]},
        {"instance_types": ["p4d.24xlarge"]},
        {"source": "another"},
        {"cloud": "azure"},
    ],
    ids=str,
)
def test_an_answer_says_nothing_of_what_it_was_not_asked(
    history: PriceHistory, elsewhere: dict[str, Any]
) -> None:
    history.record("all", SCOPE, [price()], T0)
    history.record("part", replace(SCOPE, **elsewhere), [], T0 + DAY)
    assert told(history) == [("us-east-1", "0.526", 0 * DAY, 0 * DAY, None)]


def test_an_answer_that_is_cut_off_leaves_everything_as_it_was(history: PriceHistory) -> None:
    """No row of it is taken, and none of the old ones looks new."""
    history.record("all", SCOPE, [price()], T0)

    def cut_off() -> Iterator[Price]:
        yield price("9")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        history.record("all", SCOPE, cut_off(), T0 + DAY)
    assert told(history) == [("us-east-1", "0.526", 0 * DAY, 0 * DAY, None)]
    assert history.answered() == {"all": T0}


def test_an_answer_that_comes_late_changes_nothing(history: PriceHistory) -> None:
    """Two shells refresh at once: the one that asked first may be the last to write."""
    history.record("all", SCOPE, [price("0.60")], T0 + DAY)
    history.record("all", SCOPE, [price("0.526")], T0)
    history.record("all", SCOPE, [], T0)
    assert told(history) == [("us-east-1", "0.60", DAY, DAY, None)]


def test_what_was_in_force_at_a_moment(history: PriceHistory) -> None:
    for day, amount in enumerate(("1", "2", "2", "3")):
        history.record("all", SCOPE, [price(amount)], T0 + day * DAY)

    def amounts(at: datetime) -> list[str]:
        return [str(span.price.amount) for span in history.spans([KIND], at=at)]

    assert amounts(T0 - DAY) == []
    assert amounts(T0) == ["1"]
    assert amounts(T0 + DAY + DAY / 2) == ["2"]
    assert amounts(T0 + 9 * DAY) == ["3"]


def test_what_was_set_aside_can_be_read(history: PriceHistory) -> None:
    aside = SetAside(reason="negative price", row="-1")
    history.record("all", SCOPE, [price()], T0, [aside])
    history.record("rest", replace(SCOPE, source="another"), [], T0)
    assert history.set_aside() == {"all": [aside]}
    history.record("all", SCOPE, [price()], T0 + DAY)
    assert history.set_aside() == {}


def test_a_file_that_many_make_at_once_is_made_once(tmp_path: Path) -> None:
    """As refreshes of two shells do where there was none."""
    for attempt in range(10):
        together = threading.Barrier(8)

        def opened(number: int, file: Path, together: threading.Barrier) -> None:
            together.wait()
            with closing(PriceHistory.open(file)) as history:
                history.record(str(number), SCOPE, [price()], T0)

        file = tmp_path / f"{attempt}.db"
        with ThreadPoolExecutor(8) as crowd:
            list(crowd.map(partial(opened, file=file, together=together), range(8)))
        with closing(PriceHistory.open(file)) as history:
            assert len(history.answered()) == 8


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "prices.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    with pytest.raises(HistoryError, match="cannot be used"):
        PriceHistory.open(tmp_path / "prices.db")


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "prices.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(HistoryError, match="newer version"):
        PriceHistory.open(tmp_path / "prices.db")


REGIONS = ("us-east-1", "eu-west-1", "ap-south-1")
ANSWERS = st.dictionaries(st.sampled_from(REGIONS), st.integers(1, 3))
ASKED = st.lists(st.tuples(st.sets(st.sampled_from(REGIONS), min_size=1), ANSWERS), max_size=8)


@given(ASKED)
def test_what_is_in_force_is_what_was_answered_last(asked: list[tuple[set[str], dict[str, int]]]) -> None:
    """Of each region, after any sequence of answers about some of them; and spans never overlap."""
    expected: dict[str, int] = {}
    with closing(PriceHistory.open(Path(":memory:"))) as history:
        for day, (regions, answer) in enumerate(asked):
            given_of = {region: amount for region, amount in answer.items() if region in regions}
            rows = [price(str(amount), region=region) for region, amount in given_of.items()]
            history.record("all", replace(SCOPE, regions=regions), rows, T0 + day * DAY)
            expected = {r: a for r, a in expected.items() if r not in regions} | given_of
        assert {p.region: int(p.amount) for p in history.current(KIND)} == expected
        for region in REGIONS:
            spans = history.spans([KIND], regions=[region])
            ends = [span.ended for span in spans[:-1]]
            assert all(
                end is not None and end <= later.since for end, later in zip(ends, spans[1:], strict=True)
            )


# --- commitments

RESERVED = Commitment(
    cloud="aws",
    kind="reserved_instance",
    id="ri-1",
    region="us-east-1",
    zone="use1-az1",
    instance_type="g4dn.xlarge",
    count=2,
    until=date(2027, 5, 31),
    as_of=T0.date(),
    source="reserved",
)
PLAN = Commitment(
    cloud="aws",
    kind="savings_plan",
    id="sp-1",
    region=None,
    plan=SavingsPlan(
        per_hour=Money(amount=Decimal("0.90"), currency="USD"), purchase="savings_1y", terms="compute plan"
    ),
    until=None,
    as_of=T0.date(),
    source="plans",
)


def test_commitments_are_kept_whole(history: PriceHistory) -> None:
    assert PLAN.plan is not None
    family = replace(PLAN, id="sp-2", region="us-east-1", plan=replace(PLAN.plan, family="g4dn"))
    history.keep_commitments("aws", "1", {"reserved": [RESERVED], "plans": [PLAN, family]}, (), T0)
    assert sorted(history.commitments(), key=lambda each: each.id) == [RESERVED, PLAN, family]


def test_an_answer_takes_the_place_of_the_one_before(history: PriceHistory) -> None:
    """What is asked for no more, as its region is gone, is not in force either."""
    history.keep_commitments("aws", "1", {"a": [RESERVED], "b": [PLAN]}, (), T0)
    newer = replace(RESERVED, id="ri-2")
    history.keep_commitments("aws", "1", {"a": [newer]}, (), T0 + DAY)
    assert history.commitments() == [replace(newer, as_of=(T0 + DAY).date())]


def test_what_has_no_answer_stays_as_old_as_it_was(history: PriceHistory) -> None:
    history.keep_commitments("aws", "1", {"a": [RESERVED], "b": [PLAN]}, (), T0)
    history.keep_commitments("aws", "1", {"a": []}, ("b",), T0 + DAY)
    assert history.commitments() == [PLAN]
    history.keep_commitments("azure", "1", {"b": []}, (), T0 + DAY)
    assert history.commitments() == [PLAN], "another cloud's is not touched"


def test_those_of_another_account_are_forgotten(history: PriceHistory) -> None:
    history.keep_commitments("aws", "1", {"a": [RESERVED], "b": [PLAN]}, (), T0)
    history.keep_commitments("aws", "2", {"a": [RESERVED]}, ("b",), T0 + DAY)
    assert [each.id for each in history.commitments()] == ["ri-1"]


def test_a_file_of_the_first_version_is_taken_along(tmp_path: Path) -> None:
    """Its prices stay, and what it lacks is made."""
    file = tmp_path / "prices.db"
    with closing(PriceHistory.open(file)) as history:
        history.record("all", SCOPE, [price()], T0)
    with closing(sqlite3.connect(file)) as connection:
        for table in ("commitments", "tariff_lists", "rates"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    with closing(PriceHistory.open(file)) as history:
        assert history.commitments() == []
        assert history.rates() == []
        assert history.tariffs().at("aws", "us-east-1", "disk") == ()
        assert len(history.current(KIND)) == 1
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
