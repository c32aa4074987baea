"""What boxes have cost: by month, at the price of the launch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpucloud.costs.spend import charges, first_of_month, months
from gpucloud.journal.store import Box
from tests.builders import START, a_box

FACTS = {
    "cloud": "aws",
    "region": "us-east-1",
    "instance_type": "g4dn.xlarge",
    "purchase": "on_demand",
    "price": {"amount": "0.5", "currency": "USD"},
    "price_as_of": "2026-01-05",
    "price_source": "today",
    "listed": {
        "disk_gb_month": {"amount": "0.08", "currency": "USD", "as_of": "2026-01-01", "source": "a list"},
        "public_ip_hour": {"amount": "0.005", "currency": "USD", "as_of": None, "source": "a list"},
    },
    "disk_gib": 100,
    "nodes": [{"id": "i-1"}, {"id": "i-2"}],
}


def used(hours: float | None) -> Box:
    """Two nodes, from the middle of a Monday on."""
    ended = None if hours is None else START + timedelta(hours=hours)
    return a_box(started_at=START, ended_at=ended, facts=FACTS)


def spent(of: Box, *, since: datetime | None = None, now: datetime = START + timedelta(days=60)) -> Decimal:
    found = [charge.amount for charge in charges(of, since, now) if charge.part == "compute"]
    return sum(filter(None, found), Decimal(0))


def test_compute_is_charged_as_agreed_for_each_node() -> None:
    assert spent(used(10)) == 10, "ten hours, two nodes, half a dollar"
    assert spent(used(None), now=START + timedelta(hours=3)) == 3, "so far"


def test_disk_and_address_are_at_the_list_prices_of_the_launch() -> None:
    parts = {charge.part: charge for charge in charges(used(73), None, START)}
    assert parts["disk"].amount == Decimal("1.6"), "100 GiB, two nodes, a tenth of a month, 8 cents"
    assert parts["address"].amount == Decimal("0.73"), "146 hours, half a cent"
    assert (parts["disk"].as_of, parts["disk"].source) == ("2026-01-01", "a list")


def test_a_disk_is_charged_as_it_is_billed() -> None:
    box = replace(used(365), facts={**FACTS, "cloud": "azure", "nodes": [{"id": "vm"}]})
    disk = next(charge for charge in charges(box, None, START) if charge.part == "disk")
    assert disk.quantity == 64, "100 GiB are billed as 128, for half a month"


def test_what_is_not_known_is_not_nothing() -> None:
    unpriced = replace(used(1), facts={**FACTS, "price": None, "listed": {}})
    found = {charge.part: charge.amount for charge in charges(unpriced, None, START)}
    assert found == {"compute": None, "disk": None, "address": None}
    unmeasured = replace(used(1), facts={**FACTS, "disk_gib": None})
    assert {charge.part for charge in charges(unmeasured, None, START) if charge.amount is None} == {"disk"}


def test_what_never_began_costs_nothing() -> None:
    assert not list(charges(replace(used(1), started_at=None), None, START))


def test_what_was_before_is_left_out() -> None:
    assert spent(used(10), since=START + timedelta(hours=4)) == 6
    assert spent(used(10), since=START + timedelta(hours=40)) == 0


def test_a_year_ends_in_december() -> None:
    start, end = datetime(2026, 11, 30, 23, tzinfo=UTC), datetime(2027, 1, 1, 1, tzinfo=UTC)
    assert [(a.month, (b - a).total_seconds() / 3600) for a, b in months(start, end)] == [
        (11, 1),
        (12, 744),
        (1, 1),
    ]


@given(st.integers(0, 3650 * 86400), st.timedeltas(timedelta(0), timedelta(400)))
def test_months_are_the_whole_time_and_no_more(second: int, length: timedelta) -> None:
    begin = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    found = list(months(begin, begin + length))
    assert sum((b - a for a, b in found), timedelta(0)) == length
    assert all(first_of_month(a) == first_of_month(b - timedelta(microseconds=1)) for a, b in found)
    assert all(one[1] == two[0] for one, two in pairwise(found))
