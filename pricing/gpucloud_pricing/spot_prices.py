"""Spot prices that are out of line with their region: pure functions over the prices of one type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from statistics import median

BELOW_REGION = "below_region"
"""The flag of a spot price under half of the median of its region's zones."""
ABOVE_ON_DEMAND = "above_on_demand"
"""The flag of a spot price above the on-demand price of its region."""

_LEAST_SHARE = Decimal("0.5")
_ROUNDING = Decimal("1.01")
"""Spot prices are listed with fewer digits than on-demand prices: those within 1 % count as equal."""

Zone = tuple[str, str]
"""A region and a zone; the zone is empty for a regional price."""


def out_of_line(spot: Mapping[Zone, Decimal], on_demand: Mapping[str, Decimal]) -> dict[Zone, str]:
    """The zones of one instance type whose spot price is out of line, each with its flag.

    A price far below its neighbours is more often an error or a zone without stock than a bargain, and one
    above on-demand buys the risk of interruption for nothing.

    Args:
        spot: the spot price of each zone, in USD per hour.
        on_demand: the on-demand price of each region, in USD per hour; a region may be missing.
    """
    medians = _medians(spot)
    flags: dict[Zone, str] = {}
    for (region, zone), usd in spot.items():
        listed = on_demand.get(region)
        if usd < medians[region] * _LEAST_SHARE:
            flags[region, zone] = BELOW_REGION
        elif listed is not None and usd > listed * _ROUNDING:
            flags[region, zone] = ABOVE_ON_DEMAND
    return flags


def lowest_by_region(prices: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """The lowest of the prices of each region."""
    lowest: dict[str, Decimal] = {}
    for region, usd in prices:
        lowest[region] = min(usd, lowest.get(region, usd))
    return lowest


def _medians(spot: Mapping[Zone, Decimal]) -> dict[str, Decimal]:
    """The median price of each region's zones."""
    by_region: dict[str, list[Decimal]] = defaultdict(list)
    for (region, _), usd in spot.items():
        by_region[region].append(usd)
    return {region: median(prices) for region, prices in by_region.items()}
