"""Summaries of numbers whose merge does not depend on where they were computed: moments and quantiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Shape suffixes: N numbers or points, ascending; Q quantiles.

_POINTS_OF_ERROR = 8.0
"""Points of a summary times its error: each of up to 15 merges of a number adds half a point's weight."""


@dataclass
class Moments:
    """Count, mean, sum of squared differences from the mean, and bounds, of finite numbers.

    Reference: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, numbers_N: NDArray[Any]) -> None:
        """Adds numbers."""
        if not numbers_N.size:
            return
        as_double_N = numbers_N.astype(np.float64)
        mean = float(as_double_N.mean())
        squares = float(np.square(as_double_N - mean).sum())
        self.merge(Moments(numbers_N.size, mean, squares, float(numbers_N.min()), float(numbers_N.max())))

    def merge(self, other: "Moments") -> None:
        """Adds the numbers of another summary."""
        if not other.count:
            return
        count = self.count + other.count
        difference = other.mean - self.mean
        self.mean += difference * other.count / count
        self.squares += other.squares + difference**2 * self.count * other.count / count
        self.count, self.low, self.high = count, min(self.low, other.low), max(self.high, other.high)

    @property
    def deviation(self) -> float:
        """The standard deviation of the population; exactly 0 where all numbers are equal."""
        return math.sqrt(self.squares / self.count) if self.count and self.low < self.high else 0.0


@dataclass(frozen=True)
class Points:
    """Different numbers in ascending order, each with its count."""

    values_N: NDArray[Any]
    weights_N: NDArray[np.float64]


class Quantiles:
    """A summary in few points, with a bounded error of every rank; exact up to that many different numbers.

    Summaries of equally many batches are merged, as in a binary counter, so that a number takes part in few merges. A
    summary takes 16 bytes a point; tfx_bsl's sketch always takes 650 KB for an error of 0.0025.

    Reference: Manku, Rajagopalan, Lindsay, Approximate medians and other order statistics, 1998, section 3.
    """

    def __init__(self, error: float):
        """Starts without numbers.

        Args:
            error: largest error of a rank, as a share of all numbers.
        """
        self._most = math.ceil(_POINTS_OF_ERROR / error)
        self._levels: list[Points | None] = []

    def add(self, numbers_N: NDArray[Any]) -> None:
        """Adds a batch of numbers without NaN."""
        if numbers_N.size:
            values_N, counts_N = np.unique(numbers_N, return_counts=True)
            self.merge(Points(values_N, counts_N.astype(np.float64)))

    def merge(self, points: Points) -> None:
        """Adds the numbers of a summary."""
        if not points.values_N.size:
            return
        points = _fewer(points, self._most)
        for level, there in enumerate(self._levels):
            if there is None:
                self._levels[level] = points
                return
            self._levels[level] = None
            points = _fewer(_together([there, points]), self._most)
        self._levels.append(points)

    def points(self) -> Points:
        """Returns all numbers as one summary."""
        levels = [level for level in self._levels if level is not None]
        if not levels:
            return Points(np.zeros(0), np.zeros(0))
        return _fewer(_together(levels), self._most)


def boundaries(points: Points, num: int) -> NDArray[Any]:
    """Returns the numbers that divide all into parts of equal size; a part begins with its boundary.

    Args:
        points: summary of at least one number.
        num: number of parts.
    """
    return points.values_N[_at(points, np.arange(1, num) / num)]


def ends_of_bins(points: Points, low: float, high: float, num: int) -> NDArray[np.float32]:
    """Returns the ends of at most `num` bins of equally many numbers, ascending and all different.

    A repeated number counts for at most one bin. Otherwise, with nine zeros in ten numbers, all others would get one
    bin of ten.

    Args:
        points: summary of at least one number.
        low: lowest number.
        high: highest number.
        num: maximum number of bins.
    """
    capped = Points(points.values_N, _capped(points.weights_N, num))
    return np.unique(np.array([low, *boundaries(capped, num), high], np.float32))


def _capped(weights_N: NDArray[np.float64], num: int) -> NDArray[np.float64]:
    """Returns the weights with the largest lowered, so that none exceeds one num-th of their new sum."""
    if len(weights_N) <= num:
        return np.ones_like(weights_N)
    is_heavy_N = np.zeros(len(weights_N), bool)
    while True:
        cap = weights_N[~is_heavy_N].sum() / (num - is_heavy_N.sum())
        if not (weights_N[~is_heavy_N] > cap).any():
            return np.minimum(weights_N, cap)
        is_heavy_N |= weights_N > cap


def with_last_divided(ends_Q: NDArray[np.float32], num: int) -> NDArray[np.float32]:
    """Returns the ends of `num` bins: the last given bin is divided evenly; unchanged if empty."""
    if len(ends_Q) < 2:
        return ends_Q
    divided = np.linspace(ends_Q[-2], ends_Q[-1], num - len(ends_Q) + 3, dtype=np.float32)
    return np.unique(np.concatenate([ends_Q[:-2], divided]))


def at_most(points: Points, boundaries_Q: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the count of numbers up to each of these."""
    cumulative_N = np.concatenate([[0.0], np.cumsum(points.weights_N)])
    return cumulative_N[np.searchsorted(points.values_N, boundaries_Q, side="right")]


def _at(points: Points, shares_Q: NDArray[np.float64]) -> NDArray[np.intp]:
    cumulative_N = np.cumsum(points.weights_N)
    found_Q = np.searchsorted(cumulative_N, shares_Q * cumulative_N[-1], side="right")
    return np.minimum(found_Q, len(cumulative_N) - 1)


def _together(parts: Sequence[Points]) -> Points:
    values_N = np.concatenate([part.values_N for part in parts])
    weights_N = np.concatenate([part.weights_N for part in parts])
    return _of(values_N, weights_N)


def _of(values_N: NDArray[Any], weights_N: NDArray[np.float64]) -> Points:
    different_N, index_N = np.unique(values_N, return_inverse=True)
    return Points(different_N, np.bincount(index_N, weights_N, len(different_N)).astype(np.float64))


def _fewer(points: Points, most: int) -> Points:
    """Returns at most `num` points: the middle number of each of equal slots of the ranks."""
    if len(points.values_N) <= most:
        return points
    middles_Q = (np.arange(most) + 0.5) / most
    total = float(points.weights_N.sum())
    return _of(points.values_N[_at(points, middles_Q)], np.full(most, total / most))
