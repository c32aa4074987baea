"""What a start may cost: today's price for the machine's zone, against the limit."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.boxes.starting import ceiling_of, quoted, refuse_dearer
from gpucloud.costs.resource_prices import ADDRESS, DISK
from gpucloud.errors import PriceError
from gpucloud.journal.facts import Offer, Price, Usage
from gpucloud.resources import Quote
from gpucloud_pricing.billing import NOTHING_SPECIAL
from gpucloud_pricing.purchases import Purchase
from tests.builders import START, a_box, a_quote


def quote(price: str, zone: str | None = None, instance_type: str = "t") -> Quote:
    return a_quote(price_per_hour=Decimal(price), zone=zone, instance_type=instance_type)


QUOTES: list[tuple[str, list[Quote], str | None, str | None]] = [
    ("the price of the region", [quote("1")], "z1", "1"),
    ("the zone's own goes before the region's", [quote("3"), quote("1", "z1")], "z1", "1"),
    ("another zone's does not count", [quote("1", "z2")], "z1", None),
    ("the highest where the zone is not known", [quote("1", "z1"), quote("2", "z2")], None, "2"),
    ("another type's does not count", [quote("1", instance_type="u")], None, None),
    ("none", [], "z1", None),
]


@pytest.mark.parametrize(("case", "quotes", "zone", "price"), QUOTES)
def test_the_quote_that_counts(case: str, quotes: list[Quote], zone: str | None, price: str | None) -> None:
    found = quoted(quotes, "t", zone)
    assert (found and format(found.price_per_hour, "f")) == price, case


LIMITS: list[tuple[str, Purchase, str, str | None, bool]] = [
    ("the same price", Purchase.ON_DEMAND, "1.00", None, True),
    ("within the margin of list prices", Purchase.ON_DEMAND, "1.02", None, True),
    ("above it", Purchase.ON_DEMAND, "1.03", None, False),
    ("within the margin of spot", Purchase.SPOT, "1.25", None, True),
    ("above it, on spot", Purchase.SPOT, "1.26", None, False),
    ("within the user's limit", Purchase.ON_DEMAND, "1.50", "1.50", True),
    ("above it, though cheaper than before", Purchase.ON_DEMAND, "0.90", "0.80", False),
]


@pytest.mark.parametrize(("case", "purchase", "now", "limit", "allowed"), LIMITS)
def test_the_limit_of_a_start(
    case: str, purchase: Purchase, now: str, limit: str | None, allowed: bool
) -> None:
    box = a_box(
        price=Price(amount=Decimal(1), currency="USD"), offer=Offer(instance_type="t", purchase=purchase)
    )
    price = Price(amount=Decimal(now), currency="USD")
    most = None if limit is None else Decimal(limit)
    with nullcontext() if allowed else pytest.raises(PriceError, match="nothing was started"):
        refuse_dearer(box, price, max_price_usd=most, usd=lambda amount, currency: amount)


def test_a_price_in_a_currency_without_a_rate_is_refused() -> None:
    box = a_box(price=Price(amount=Decimal(1), currency="XXX"))
    with pytest.raises(PriceError, match="no limit is known"):
        refuse_dearer(box, Price(amount=Decimal(1), currency="XXX"), max_price_usd=None, usd=lambda *_: None)


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
