"""What boxes have cost: by month, at the price of the launch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpucloud.costs.spend import charges, cost_so_far, first_of_month, months
from gpucloud.journal.facts import Place, Price, Usage
from gpucloud.journal.records import Box
from gpucloud_pricing.billing import Billing, billing_of
from tests.builders import START, a_box

USD = partial(Price, currency="USD")
COMPUTE = USD(amount=Decimal("0.5"), as_of=date(2026, 1, 5), source="today")
DISK = USD(amount=Decimal("0.08"), as_of=date(2026, 1, 1), source="a list")
ADDRESS = USD(amount=Decimal("0.005"), source="a list")


def usage(part: str, price: Price | None, hours: float | None, **changes: Any) -> Usage:
    """One part of a machine, from the middle of a Monday on."""
    end = None if hours is None else START + timedelta(hours=hours)
    values = {"box": "b-1", "resource": "i-1", "part": part, "start": START, "end": end, "price": price}
    return Usage(**{**values, "gib": 100 if part == "disk" else None, **changes})


def used(hours: float | None, *, nodes: int = 2, cloud: str = "aws") -> Box:
    """Some nodes, each with a disk and an address."""
    return a_box(
        place=Place(cloud=cloud, region="us-east-1"),
        usage=tuple(
            usage(part, price, hours, resource=f"i-{number}")
            for number in range(nodes)
            for part, price in (("compute", COMPUTE), ("disk", DISK), ("address", ADDRESS))
        ),
    )


def spent(of: Box, *, since: datetime | None = None, now: datetime = START + timedelta(days=60)) -> Decimal:
    found = [charge.amount for charge in charges(of, since, now, billing_of) if charge.part == "compute"]
    return sum(filter(None, found), Decimal(0))


def test_compute_is_charged_as_agreed_for_each_node() -> None:
    assert spent(used(10)) == 10, "ten hours, two nodes, half a dollar"
    assert spent(used(None), now=START + timedelta(hours=3)) == 3, "so far"
    assert spent(used(10), now=START + timedelta(hours=3)) == 10, "an end that the cloud told"


def so_far(of: Box, *, hours: float) -> Decimal | None:
    found = cost_so_far(of, START + timedelta(hours=hours), billing_of)
    return found.amount.amount if found else None


def test_the_cost_so_far_is_that_of_all_parts() -> None:
    assert so_far(used(None), hours=73) == 73 + Decimal("1.6") + Decimal("0.73"), "compute, disks, addresses"
    assert so_far(used(73), hours=100) == so_far(used(None), hours=73), "what has ended costs nothing more"
    assert so_far(used(None), hours=-3) is None, "whatever the clocks say"


def test_an_end_that_is_an_upper_limit_makes_the_cost_a_range() -> None:
    """Certain is what was billed until the machine was last seen; the end of the other one was told."""
    loose = replace(used(10), billed_until={"i-1": START + timedelta(hours=4)})
    found = cost_so_far(loose, START + timedelta(days=60), billing_of)
    assert found is not None
    parts = Decimal("0.5") + Decimal("0.08") * 100 / 730 + Decimal("0.005")
    assert found.amount.amount == round(parts * 20, 4)
    assert found.least.amount == round(parts * 14, 4)
    assert all(charge.is_at_most for charge in charges(loose, None, START, billing_of))
    assert not any(charge.is_at_most for charge in charges(used(10), None, START, billing_of))


def test_the_cost_so_far_leaves_out_unknown_prices_and_what_was_paid_for_before() -> None:
    held = usage("compute", COMPUTE, 10, paid_before=True)
    assert so_far(a_box(usage=(held, usage("address", ADDRESS, 10))), hours=10) == Decimal("0.05")
    assert so_far(a_box(usage=(usage("compute", COMPUTE, 10), usage("disk", None, 10))), hours=10) == 5
    assert so_far(a_box(usage=(usage("disk", None, 10),)), hours=10) is None


def test_disk_and_address_are_at_the_list_prices_of_the_launch() -> None:
    parts = {charge.part: charge for charge in charges(used(73), None, START, billing_of)}
    assert parts["disk"].amount == Decimal("1.6"), "100 GiB, two nodes, a tenth of a month, 8 cents"
    assert parts["address"].amount == Decimal("0.73"), "146 hours, half a cent"
    assert (parts["disk"].as_of, parts["disk"].source) == ("2026-01-01", "a list")


def test_a_disk_is_charged_as_it_is_billed() -> None:
    disk = next(
        c for c in charges(used(365, nodes=1, cloud="azure"), None, START, billing_of) if c.part == "disk"
    )
    assert disk.quantity == 64, "100 GiB are billed as 128, for half a month"


def test_another_packages_cloud_bills_as_it_says_itself() -> None:
    own = Billing(vendor="Dummy GmbH", disk_sizes_gib=(50, 200))
    found = list(charges(used(365, nodes=1, cloud="dummy"), None, START, lambda _: own))
    assert [charge.quantity for charge in found if charge.part == "disk"] == [100]
    assert {charge.vendor for charge in found} == {"Dummy GmbH"}


def test_what_is_not_known_is_not_nothing() -> None:
    unpriced = a_box(usage=tuple(usage(part, None, 1) for part in ("compute", "disk", "address")))
    found = {charge.part: charge.amount for charge in charges(unpriced, None, START, billing_of)}
    assert found == {"compute": None, "disk": None, "address": None}
    unmeasured = a_box(usage=(usage("compute", COMPUTE, 1), usage("disk", DISK, 1, gib=None)))
    assert {
        charge.part for charge in charges(unmeasured, None, START, billing_of) if charge.amount is None
    } == {"disk"}


def test_what_never_began_costs_nothing() -> None:
    assert not list(charges(a_box(), None, START, billing_of))
    assert cost_so_far(a_box(), START, billing_of) is None


def test_what_was_before_is_left_out() -> None:
    assert spent(used(10), since=START + timedelta(hours=4)) == 6
    assert spent(used(10), since=START + timedelta(hours=40)) == 0


def test_a_pause_and_a_new_price_are_charged_as_they_were() -> None:
    later = START + timedelta(hours=20)
    dearer = USD(amount=Decimal(1))
    box = a_box(usage=(usage("compute", COMPUTE, 10), usage("compute", dearer, 21, start=later)))
    assert [charge.amount for charge in charges(box, None, START, billing_of)] == [5, 1]
    assert so_far(box, hours=48) == 6


def test_capacity_that_was_held_is_told_from_what_is_bought() -> None:
    box = a_box(usage=(usage("compute", COMPUTE, 10, paid_before=True),))
    assert [charge.paid_before for charge in charges(box, None, START, billing_of)] == [True]


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
