"""Spearman's rank correlation of labels and scores, exact up to a number of examples, from a sample of more.

Ranks need all values at once, so a bounded sample is kept: the examples with the smallest hashes, which are a random
sample that does not depend on the order of counting and merging.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.bootstrap import weights
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats, Ints, ratio
from sangam.schemas.host.splitmix64 import mix64

MOST_RANKED = 200_000
"""Maximum ranked examples: 6.4 MB. Their correlation has a standard error below 0.0023."""
_CHUNK = 8
"""Replicates that are ranked at once: 13 MB per array."""


@dataclass
class RankSample:
    """The examples with the smallest hashes.

    Attributes:
        most: size of the sample; half as many more wait to be sorted.
        units: hashes of the bootstrap units, uint64[n].
        values: hash, label and score of each example as float64[n, 3]; the hash in [0, 1).
    """

    most: int = MOST_RANKED
    units: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    values: Floats = field(default_factory=lambda: np.zeros((0, 3)))

    def add(self, ids: NDArray[np.uint64], units: NDArray[np.uint64], labels: Floats, scores: Floats) -> None:
        """Adds examples."""
        hashes = (mix64(ids) >> np.uint64(11)).astype(np.float64) / 2.0**53
        self._append(units, np.stack([hashes, labels, scores], axis=1))

    def merge(self, other: "RankSample") -> None:
        """Adds the sample of other examples."""
        self._append(other.units, other.values)

    def _append(self, units: NDArray[np.uint64], values: Floats) -> None:
        if len(self.units) >= self.most:
            # The others cannot be kept: nearly all, once there are many examples.
            can_be_kept = values[:, 0] <= self.values[:, 0].max()
            units, values = units[can_be_kept], values[can_be_kept]
        self.units, self.values = np.concatenate([self.units, units]), np.concatenate([self.values, values])
        if len(self.units) > 1.5 * self.most:
            self.cut()

    def cut(self) -> None:
        """Reduces the sample to its size."""
        if len(self.units) > self.most:
            # Label and score order equal hashes, so the sample does not depend on the order of the examples.
            kept = np.lexsort(self.values.T[::-1])[: self.most]
            self.units, self.values = self.units[kept], self.values[kept]

    def correlations(self, replicates: int, seed: int) -> Floats:
        """Returns the correlation of the examples and of each replicate, [1 + replicates]."""
        if not len(self.units):
            return np.full(1 + replicates, np.nan)
        self.cut()
        drawn_RN = weights(self.units, replicates, seed).T
        parts = [
            spearman(self.values[:, 1], self.values[:, 2], drawn_RN[start : start + _CHUNK])
            for start in range(0, 1 + replicates, _CHUNK)
        ]
        return np.concatenate(parts)


def spearman(labels: Floats, scores: Floats, weights_RN: NDArray[np.generic]) -> Floats:
    """Returns the correlation of the ranks, equal values at their mean rank, of examples repeated by weight: [R].

    NaN where labels or scores are all equal.
    """
    drawn = weights_RN.astype(np.float64)
    totals = drawn.sum(axis=1, keepdims=True)
    # Ranks around their mean, (total + 1) / 2, which repetition does not change.
    first = _ranks(labels, drawn) - (totals + 1) / 2
    second = _ranks(scores, drawn) - (totals + 1) / 2
    weighted = drawn * first
    covariance = np.einsum("rn,rn->r", weighted, second)
    spread = np.einsum("rn,rn->r", weighted, first) * np.einsum("rn,rn,rn->r", drawn, second, second)
    return ratio(covariance, np.sqrt(np.maximum(spread, 0)))


def _ranks(values: Floats, weights_RN: Floats) -> Floats:
    """Returns for each example the mean rank, from 1, of the copies of all examples with its value."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts: Ints = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    tied_RK = np.add.reduceat(weights_RN[:, order], starts, axis=1)
    ranks_RK = np.cumsum(tied_RK, axis=1) - (tied_RK - 1) / 2
    tie_of_N = np.searchsorted(ordered[starts], values)
    return ranks_RK[:, tie_of_N]
