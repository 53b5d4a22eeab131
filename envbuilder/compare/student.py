"""Quantiles of Student's t distribution, for which the standard library has no function."""

from __future__ import annotations

from functools import cache
from math import atan, cos, pi, sin, sqrt

# the accuracy of a quantile
_ACCURACY = 1e-9


@cache
def quantile(confidence: float, freedom: int) -> float:
    """Return the value below which a t variable with so many degrees of freedom is with this probability."""
    low, high = 0.0, 1.0
    while _below(high, freedom) < confidence:
        high *= 2
    while high - low > _ACCURACY * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, freedom) < confidence else (low, middle)
    return high


def _below(value: float, freedom: int) -> float:
    """Return the probability of a smaller value, by the finite sums for whole degrees of freedom.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = atan(value / sqrt(freedom))
    # the sum begins with cos for an odd number, with 1 for an even one
    term, total = (cos(angle), 0.0) if freedom % 2 else (1.0, 0.0)
    for factor in range(2 if freedom % 2 else 1, freedom, 2):
        total += term
        term *= factor / (factor + 1) * cos(angle) ** 2
    within = 2 / pi * (angle + sin(angle) * total) if freedom % 2 else sin(angle) * total
    return (1 + within) / 2
