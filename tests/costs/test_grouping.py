"""What boxes have cost, by month, cloud, GPU, owner and the user's tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucloud.costs.grouping import ChargeGroup, grouped, read_keys
from gpucloud.costs.spend import Spend, spend_of
from gpucloud.errors import UsageError
from gpucloud.journal.facts import BoughtOffer, Gpu, Place, Price, Usage, Wanted
from gpucloud.journal.records import Box
from gpucloud_pricing.billing import billing_of
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.values import Money
from tests.builders import START, a_box

NOW = START + timedelta(days=90)


def box(
    number: int,
    *,
    cloud: str = "aws",
    gpu: str | None = "T4",
    owner: str = "u-1",
    team: str | None = "vision",
    hours: float = 10,
    price: str | None = "1",
) -> Box:
    paid = None
    if price is not None:
        paid = Price(amount=Decimal(price), currency="CNY" if cloud == "alibaba" else "USD", source="a list")
    parts: dict[str, Any] = {
        part: Usage(
            box=f"b-{number}",
            resource=f"i-{number}",
            part=part,
            start=START,
            end=START + timedelta(hours=hours),
            price=paid,
            gib=100 if part == "disk" else None,
        )
        for part in ("compute", "disk", "address")
    }
    kind = None if gpu is None else Gpu(model=gpu, count=Decimal(1))
    return a_box(
        id=f"b-{number}",
        name=f"box-{number}",
        owner=owner,
        place=Place(cloud=cloud, region="a-region"),
        offer=BoughtOffer(instance_type="x", purchase=Purchase.SPOT, gpu=kind),
        price=paid,
        wanted=Wanted(spec={} if team is None else {"tags": {"team": team}}),
        usage=tuple(parts.values()),
    )


def spent(*boxes: Box) -> Spend:
    return spend_of(boxes, None, NOW, billing_of)


def amounts(totals: Sequence[Money]) -> dict[str, Decimal]:
    return {total.currency: total.amount for total in totals if total.amount}


def summed(groups: Sequence[ChargeGroup]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for group in groups:
        for currency, amount in amounts(group.totals).items():
            sums[currency] += amount
    return sums


def test_charges_are_added_up_by_each_key() -> None:
    both = spent(box(1), box(2, cloud="azure", gpu="A100", owner="u-2", team=None, hours=24 * 40))
    for key, values in {
        "cloud": ["aws", "azure"],
        "gpu": ["A100", "T4"],
        "owner": ["u-1", "u-2"],
        "tag:team": ["vision", None],
        "tag:nobody": [None],
    }.items():
        assert [group.values[key] for group in grouped(both, [key])] == values
    months = grouped(both, ["cloud", "month"])
    first = f"{START:%Y-%m}"
    assert [tuple(group.values.values()) for group in months][:2] == [("aws", first), ("azure", first)]
    assert len(months) > 2, "40 days end in another month"
    assert [group.boxes for group in grouped(both, ["tag:nobody"])] == [2]


some_box = st.builds(
    box,
    st.integers(1, 4),
    cloud=st.sampled_from(["aws", "azure", "alibaba"]),
    gpu=st.sampled_from(["T4", "A100", None]),
    owner=st.sampled_from(["u-1", "u-2"]),
    team=st.sampled_from(["vision", "speech", None]),
    hours=st.floats(0.01, 2000),
    price=st.sampled_from(["0.526", "32.7726", "0.0000071", None]),
)
some_keys = st.lists(
    st.sampled_from(["month", "cloud", "gpu", "owner", "tag:team"]), min_size=1, max_size=5, unique=True
)


@settings(deadline=None)
@given(st.lists(some_box, max_size=8), some_keys)
def test_groups_add_up_to_the_total_and_lose_no_unknown(boxes: list[Box], keys: list[str]) -> None:
    whole = spent(*boxes)
    groups = grouped(whole, keys)
    sums, total = summed(groups), amounts(whole.totals)
    for currency in sums.keys() | total.keys():
        assert abs(sums.get(currency, Decimal(0)) - total.get(currency, Decimal(0))) < Decimal("0.005")
    unknown = {name for group in groups for names in group.unknown.values() for name in names}
    assert unknown == {charge.holding.name for charge in whole.charges if charge.amount is None}


def test_a_group_without_a_price_has_no_total_and_says_why() -> None:
    (group,) = grouped(spent(box(1, price=None)), ["cloud"])
    assert group.totals == []
    assert group.unknown == {
        f"no {part} price in aws a-region was known at the launch": ["box-1"]
        for part in ("compute", "disk", "address")
    }


def test_keys_are_read_and_bad_ones_are_refused() -> None:
    assert read_keys("month, cloud,tag:cost center") == ("month", "cloud", "tag:cost center")
    for bad, told in {
        "mont": "did you mean month",
        "": "not a key",
        "tag:": "not a key",
        "gpu,gpu": "twice",
    }.items():
        with pytest.raises(UsageError, match=told):
            read_keys(bad)
