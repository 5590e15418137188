"""Intervals that hold at all looks together: who looks every hour is as seldom wrong as who looks once.

The boundary is Robbins' normal mixture, in the asymptotic confidence sequences of Waudby-Smith, Arbour, Sinha, Kennedy
and Ramdas (Time-uniform central limit theory and asymptotic confidence sequences, Annals of Statistics 2024, theorem
2.2 and, for variances that change, proposition 2.5). In place of their t / sigma^2 stands the information 1 / SE^2:
users come back, and information then grows while their number does not.
"""

import math
from typing import NamedTuple

from sangam.components.promotion.paired import Estimate


class Interval(NamedTuple):
    """The ends of an interval."""

    lower: float
    upper: float


def interval(estimate: Estimate, alpha: float, tightest_at: float) -> Interval:
    """Returns an interval of level 1 - alpha.

    Args:
        estimate: value and standard error.
        alpha: largest share of series of looks in which any interval misses the true value.
        tightest_at: standard error at which the interval is tightest; to be chosen before any look.
    """
    half = half_width(estimate.standard_error, alpha, tightest_at)
    return Interval(estimate.value - half, estimate.value + half)


def half_width(standard_error: float, alpha: float, tightest_at: float) -> float:
    """Returns half the width of an interval: about 3 standard errors at alpha 0.05, where it is tightest."""
    if standard_error == 0 or math.isinf(standard_error):
        return standard_error
    twice = -2 * math.log(alpha)
    # t rho^2, with the rho that the paper gives for the t at which the sequence is to be tightest.
    mixed = (twice + math.log(twice + 1)) * (tightest_at / standard_error) ** 2
    return standard_error * math.sqrt(2 * (1 + 1 / mixed) * math.log(math.sqrt(1 + mixed) / alpha))
