"""What of an answer is kept, and why the rest is not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from gpucloud_pricing import Market
from gpucloud_pricing.validation import validate_prices
from tests.builders import a_price

MARKET = Market.load()
T4 = a_price("0.526")


def test_of_two_prices_for_one_thing_the_higher_counts() -> None:
    """Whichever comes first; the same twice is one."""
    dear = replace(T4, amount=Decimal("0.6"))
    for answer in ([T4, dear], [dear, T4, dear]):
        kept, aside = validate_prices(MARKET, answer)
        assert kept == [dear]
        assert [each.reason for each in aside] == ["a second, lower price for the same thing"]
        assert "0.526 USD" in aside[0].row


def test_prices_in_another_zone_way_or_terms_are_others() -> None:
    others = [replace(T4, zone="use1-az1"), replace(T4, purchase="spot"), replace(T4, terms="no upfront")]
    assert validate_prices(MARKET, [T4, *others]) == ([T4, *others], [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"instance_type": "x9.huge"}, "hardware is not known"),
        ({"region": "mars-1"}, "region that is not known"),
        ({"purchase": "lottery"}, "a way of paying that is not known"),
        ({"purchase": "owned"}, "a way of paying that is not known"),
        ({"currency": "XAU"}, "no reference rate from XAU"),
    ],
)
def test_what_cannot_be_used_is_set_aside_with_the_reason(changes: dict[str, str], reason: str) -> None:
    kept, (aside,) = validate_prices(MARKET, [T4, replace(T4, **changes)])  # type: ignore[arg-type]
    assert kept == [T4]
    assert reason in aside.reason
