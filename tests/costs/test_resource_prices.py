"""The prices of a box's disk and address as its journal keeps them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpucloud.costs.resource_prices import listed_prices
from gpucloud_pricing import Market

MARKET = Market.load()


@pytest.mark.parametrize(
    ("place", "disk_gib", "month"),
    [
        (("aws", "us-east-1"), 100, "8"),  # 100 GiB x 0.08 USD
        (("azure", "eastus"), 200, "38.012142"),  # a P15
        (("azure", "eastus"), 1024, "135.17"),  # a P30
        (("alibaba", "cn-hangzhou"), 40, "61.32"),  # 40 GiB x 0.0021 CNY x 730 h
    ],
)
def test_the_listed_price_of_a_disk_is_that_of_its_size(
    place: tuple[str, str], disk_gib: int, month: str
) -> None:
    """A bill multiplies it with the size as which the cloud bills the disk."""
    price = listed_prices(MARKET, *place, disk_gib, None)["disk_gb_month"]
    assert price.amount * MARKET.billing_of(place[0]).disk_gib(disk_gib) == Decimal(month)
    assert price.source in MARKET.sources


def test_an_address_that_is_paid_by_traffic_is_listed_as_zero_with_its_source() -> None:
    address = listed_prices(MARKET, "alibaba", "cn-shanghai", 40, None)["public_ip_hour"]
    assert address.amount == 0
    assert address.source == "sc-crawler"


def test_no_price_is_listed_of_a_disk_of_unknown_size_or_where_none_is_known() -> None:
    assert listed_prices(MARKET, "aws", "us-east-1", None, None).keys() == {"public_ip_hour"}
    assert listed_prices(MARKET, "alibaba", "cn-heyuan", 40, None).keys() == {"public_ip_hour"}
    assert not listed_prices(MARKET, "nowhere", "us-east-1", 40, None)


def test_an_account_is_billed_in_one_currency() -> None:
    """A disk outside of mainland China is listed in dollars: 0.05 / 730 h at 6.7046 CNY to the dollar."""
    usd, cny, there = (
        listed_prices(MARKET, "alibaba", "us-east-1", 40, each) for each in ("USD", "CNY", None)
    )
    assert there == cny, "its machines there are priced in CNY"
    assert {price.currency for price in cny.values()} == {"CNY"}
    assert cny["disk_gb_month"].amount == round(usd["disk_gb_month"].amount * Decimal("6.7046"), 10)
