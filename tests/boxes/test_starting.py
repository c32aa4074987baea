"""What a box costs once it is started, as budgets count it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpucloud.boxes.starting import ceiling_of
from gpucloud.costs.resource_prices import ADDRESS, DISK
from gpucloud.journal.facts import Price, Usage
from gpucloud_pricing.billing import NOTHING_SPECIAL
from tests.builders import START, a_box


@pytest.mark.parametrize("kept", [False, True])
def test_a_start_is_counted_with_its_disk_and_its_address_once(kept: bool) -> None:
    """AWS gives the address back when a box stops, the others keep it, and bill it."""
    disk, address = a_usage("disk", "0.0730", gib=100), a_usage("address", "0.005")
    box = a_box(usage=(disk, address) if kept else (disk,), listed={ADDRESS: address.price, DISK: disk.price})
    found = ceiling_of(box, Price(amount=Decimal("0.526"), currency="USD"), usd, lambda _: NOTHING_SPECIAL)
    assert (found.usd_per_hour, found.without) == (Decimal("0.541"), ())


def test_a_start_says_that_the_price_of_its_address_is_unknown() -> None:
    box = a_box(usage=(a_usage("disk", "0.0730", gib=100),))
    found = ceiling_of(box, None, usd, lambda _: NOTHING_SPECIAL)
    assert (found.usd_per_hour, found.without) == (Decimal("0.01"), ("its address",))


def usd(amount: Decimal, _currency: str) -> Decimal:
    return amount


def a_usage(part: str, amount: str, **changes: Any) -> Usage:
    price = Price(amount=Decimal(amount), currency="USD")
    return Usage(box="b-1", resource="i-1", part=part, start=START, end=None, price=price, **changes)
