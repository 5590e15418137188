"""Counts of each example in the data and in each replicate, in the dtypes for products of arrays."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.bootstrap import weights

Units = NDArray[np.uint64]


class Draws:
    """Counts of examples, [N, R]: R is 1 + replicates, of which the first is the data itself.

    The counts are equal for every task, model and slice: derived arrays are computed once.
    """

    def __init__(self, times_NR: NDArray[np.uint8]) -> None:
        """Takes the counts."""
        self.times_NR = times_NR

    @classmethod
    def of(cls, units: Units, replicates: int, seed: int) -> "Draws":
        """Returns the counts of examples that the bootstrap draws by these units."""
        return cls(weights(units, replicates, seed))

    def where(self, rows: NDArray[np.generic]) -> "Draws":
        """Returns the counts of some of the examples."""
        return Draws(self.times_NR[rows])

    def first(self, replicates: int) -> "Draws":
        """Returns the counts of the data and the first replicates."""
        return self if 1 + replicates == self.times_NR.shape[1] else Draws(self.times_NR[:, : 1 + replicates])

    @functools.cached_property
    def singles_NR(self) -> NDArray[np.float32]:
        """The counts as float32: sums of fewer than 16 million of them are exact."""
        return self.times_NR.astype(np.float32)

    @functools.cached_property
    def doubles_NR(self) -> NDArray[np.float64]:
        """The counts as float64."""
        return self.times_NR.astype(np.float64)

    def summed(self, columns: list[NDArray[Any]]) -> NDArray[np.float64]:
        """Returns the sum of each column of numbers over the examples, [columns, R]."""
        return np.stack(columns).astype(np.float64, copy=False) @ self.doubles_NR
