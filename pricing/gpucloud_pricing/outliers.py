"""What is usual of a figure, robustly: single outliers among the past values do not move it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

OF_NORMAL = Decimal("1.4826")
"""The standard deviation of a normal distribution in units of its median absolute deviation."""
DEVIATIONS = 3
LEAST_VALUES = 7
"""Of fewer past values nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """The median of past values, and the highest value that is still usual."""

    middle: Decimal
    most: Decimal


def usual(values: Sequence[Decimal]) -> Usual | None:
    """The median, and three standard deviations above it, by the median absolute deviation.

    ``None`` for fewer than :data:`LEAST_VALUES` values.
    """
    if len(values) < LEAST_VALUES:
        return None
    middle = median(values)
    spread = OF_NORMAL * median(abs(value - middle) for value in values)
    return Usual(middle=middle, most=middle + DEVIATIONS * spread)
