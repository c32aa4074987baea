"""Percentiles of the gamma distribution, which the standard library does not have."""

from __future__ import annotations

import math


def gamma_percentile(shape: float, share: float) -> float:
    """The value below which a share of the gamma distribution of a shape and of rate 1 lies, by bisection."""
    low, high = 0.0, shape + 10 * math.sqrt(shape) + 10
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _gamma_share(shape, middle) < share else (low, middle)
    return (low + high) / 2


def _gamma_share(shape: float, value: float) -> float:
    """The regularized lower incomplete gamma function, by its series (NIST DLMF, equation 8.11.4)."""
    term = total = 1 / shape
    step = shape
    while term > total * 1e-12:
        step += 1
        term *= value / step
        total += term
    return total * math.exp(shape * math.log(value) - value - math.lgamma(shape))
