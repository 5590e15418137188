"""Counts of each example in the data and in each replicate, and sums over them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sangam.components.steps.evaluator.metrics.bootstrap import MOST_TIMES, Times, weights

Units = NDArray[np.uint64]
_AT_ONCE = 512
"""Examples whose counts are converted and multiplied at once: they fit the processor's cache, and OpenBLAS does not
wake its threads for so few."""


class Draws:
    """Counts of examples, [N, R]: R is 1 + replicates, of which the first is the data itself.

    The counts are equal for every task, model and slice: they are drawn once.
    """

    def __init__(self, times_NR: NDArray[Times]) -> None:
        """Takes the counts."""
        self.times_NR = times_NR

    @property
    def replicates(self) -> int:
        """Number of replicates."""
        return self.times_NR.shape[1] - 1

    @classmethod
    def of(cls, units: Units, replicates: int, seed: int) -> "Draws":
        """Returns the counts of examples that the bootstrap draws by these units."""
        return cls(weights(units, replicates, seed))

    def where(self, rows: NDArray[np.generic] | slice) -> "Draws":
        """Returns the counts of some of the examples."""
        return Draws(self.times_NR[rows])

    def first(self, replicates: int) -> "Draws":
        """Returns the counts of the data and the first replicates."""
        return self if replicates == self.replicates else Draws(self.times_NR[:, : 1 + replicates])

    def summed(self, columns: list[NDArray[Any]]) -> NDArray[np.float64]:
        """Returns the sum of each column of numbers over the examples, [columns, R]."""
        values_CN = np.stack(columns).astype(np.float64, copy=False)
        sums_CR = np.zeros((len(values_CN), 1 + self.replicates))
        for start in range(0, len(self.times_NR), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            sums_CR += values_CN[:, some] @ self.times_NR[some].astype(np.float64)
        return sums_CR

    def counted(self, places_N: NDArray[np.int64], size: int, weights_N: NDArray[Any] | None) -> NDArray[Any]:
        """Returns the sum of the examples' counts at each place, times their weights if any: [size, R]."""
        if self.replicates == 0:
            return np.bincount(places_N, weights_N, size)[:, None]
        ends = np.arange(len(places_N) + 1, dtype=np.int32)
        times_NR = self.times_NR
        if weights_N is None:
            most = int(np.bincount(places_N).max(initial=0))
            weights_N = np.ones(len(places_N), Times if most <= MOST_TIMES else np.uint32)
        # SciPy multiplies numbers of one type: small ones are twice as fast.
        times_NR = times_NR.astype(weights_N.dtype, copy=False)
        # One non-zero in each column: it adds each example's row to the row of its place.
        placed = sparse.csc_matrix((weights_N, places_N.astype(np.int32), ends), (size, len(places_N)))
        return np.asarray(placed @ times_NR)
