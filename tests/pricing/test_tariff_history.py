"""The history of tariffs: a list is in force as a whole, until it is another or gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud_pricing import Market, Tariff
from gpucloud_pricing.history import Coverage, PriceHistory, Recorded
from gpucloud_pricing.validation import LOWER, validate_tariffs

T0 = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = T0 + timedelta(days=1)
SCOPE = Coverage(cloud="aws", source="list", instance_types=(), tariffs=("egress",))


def step(amount: str = "0.09", begin: int = 0, end: int | None = None, **changes: str) -> Tariff:
    made = Tariff(
        cloud="aws",
        region="us-east-1",
        kind="egress",
        sku="transfer",
        unit="gb",
        amount=Decimal(amount),
        currency="USD",
        as_of=T0.date(),
        source="list",
        tier_from=Decimal(begin),
        tier_to=None if end is None else Decimal(end),
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # each is a text


STEPS = (step("0.09", 0, 10240), step("0.08", 10240))
MARKET = Market.load()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[PriceHistory]:
    with closing(PriceHistory.open(tmp_path / "prices.db")) as opened:
        yield opened


def record(
    history: PriceHistory,
    at: datetime,
    *lists: Sequence[Tariff],
    kinds: Sequence[str] = ("egress",),
    regions: Sequence[str] | None = None,
) -> Recorded:
    return history.record("transfer", replace(SCOPE, tariffs=kinds, regions=regions), (), at, tariffs=lists)


def in_force(history: PriceHistory, kind: str = "egress") -> list[tuple[Decimal, date | None]]:
    return [(each.amount, each.as_of) for each in history.tariffs().at("aws", "us-east-1", kind)]


def spans(folder: Path) -> list[tuple[str, str | None]]:
    """The days of the start and the end of each list that was ever in force."""
    with closing(sqlite3.connect(folder / "prices.db")) as connection:
        rows = connection.execute("SELECT since, ended FROM tariff_lists ORDER BY since").fetchall()
    return [(since[:10], ended and ended[:10]) for since, ended in rows]


def test_a_list_that_stays_the_same_is_one_span(history: PriceHistory, tmp_path: Path) -> None:
    record(history, T0, STEPS)
    same = [replace(each, amount=each.amount * Decimal("1.00")) for each in STEPS]
    assert record(history, LATER, same).moved_tariffs == []
    assert in_force(history) == [(Decimal("0.09"), LATER.date()), (Decimal("0.08"), LATER.date())]
    assert spans(tmp_path) == [("2026-11-01", None)]


def test_a_list_that_changes_ends_and_the_first_other_step_is_told(
    history: PriceHistory, tmp_path: Path
) -> None:
    record(history, T0, STEPS)
    [change] = record(history, LATER, (STEPS[0], step("0.07", 10240))).moved_tariffs
    assert (change.before.amount, change.after.amount) == (Decimal("0.08"), Decimal("0.07"))
    assert [amount for amount, _ in in_force(history)] == [Decimal("0.09"), Decimal("0.07")]
    assert spans(tmp_path) == [("2026-11-01", "2026-11-02"), ("2026-11-02", None)]


def test_an_older_answer_changes_nothing(history: PriceHistory) -> None:
    """Two refreshes at a time may store their answers in any order."""
    record(history, LATER, STEPS)
    assert record(history, T0, (step("0.5"),)).moved_tariffs == []
    record(history, T0)
    assert in_force(history) == [(Decimal("0.09"), LATER.date()), (Decimal("0.08"), LATER.date())]


def test_an_answer_ends_what_it_covers_and_lacks(history: PriceHistory) -> None:
    record(history, T0, STEPS)
    record(history, T0, (step("0.1", kind="disk"),), kinds=("disk",))
    record(history, LATER, kinds=("disk",), regions=("eu-west-1",))
    assert in_force(history, "disk"), "of another region"
    record(history, LATER, kinds=("disk",))
    assert in_force(history, "disk") == []
    assert len(in_force(history)) == 2, "of another kind"
    history.record("machines", Coverage(cloud="aws", source="list"), (), LATER)
    assert len(in_force(history)) == 2, "an answer about machines says nothing of tariffs"


def test_destinations_are_lists_of_their_own(history: PriceHistory) -> None:
    kinds = ("inter_region",)
    lists = [(step("0.02", kind=kinds[0], to=to),) for to in ("eu-west-1", "us-west-2")]
    record(history, T0, *lists, kinds=kinds)
    told = history.tariffs().at("aws", "us-east-1", "inter_region")
    assert {each.to for each in told} == {"eu-west-1", "us-west-2"}


# --- what is believed


def refused(*lists: Sequence[Tariff]) -> list[str]:
    kept, aside = validate_tariffs(MARKET, lists)
    assert len(kept) + len(aside) == len(lists)
    return [each.reason for each in aside]


def test_a_whole_list_near_the_known_one_is_believed() -> None:
    assert refused(STEPS) == []
    free = (step("0", 0, 100), step("0.09", 100))
    assert refused(free) == []


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((step("0.09", 10),), "steps with a gap"),
        ((step("0.09", 0, 10240),), "steps with a gap"),
        ((STEPS[0], step("0.08", 10241)), "steps with a gap"),
        ((step("0.09"), step("0.08")), "steps with a gap"),
        ((step("0"),), "no price that anybody pays"),
        ((STEPS[0], step("0", 10240)), "no price that anybody pays"),
        ((step(region="mars-1"),), "a region that is not known"),
        ((step(currency="XAU"),), "no reference rate from XAU to USD"),
        ((step("0.01"),), "more than 5 times, or less than a 5th of, the known price"),
        ((step("0.9"),), "more than 5 times, or less than a 5th of, the known price"),
    ],
)
def test_a_list_that_cannot_be_is_set_aside(steps: Sequence[Tariff], reason: str) -> None:
    assert refused(steps) == [reason]


def test_of_two_lists_for_one_thing_the_dearer_counts() -> None:
    """Whichever comes first; the same twice is one."""
    dear = (step("0.1"),)
    for answer in ([STEPS, dear], [dear, STEPS, dear]):
        kept, aside = validate_tariffs(MARKET, answer)
        assert [list(each) for each in kept] == [list(dear)]
        assert [each.reason for each in aside] == [LOWER]
