"""Counts of binary examples by score, in buckets of equal width in log-odds; empty buckets take no memory.

TFMA's own AUC cuts [0, 1] into 10,000 equal buckets, whatever `num_thresholds` is: the scores of an event that happens
once in 2,500 impressions share a dozen of them, and the AUC is wrong in the third digit. It also reports 0 for labels
of one class, for which the AUC is undefined.

Arrays carry shape suffixes: N examples, K buckets by rising score, 2 classes (negative, positive), R replicates.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BUCKETS_PER_UNIT = 10_000
"""Buckets per unit of log-odds: scores that share a bucket differ by less than 0.01 %."""
_SMALLEST_SCORE = 1e-12
"""Scores are clipped this far from 0 and 1, far below float32's resolution at 1: 553,000 buckets."""
NUM_CALIBRATION_BUCKETS = 10


def score_buckets(scores: Floats) -> Ints:
    """Returns the bucket of each score in [0, 1]."""
    ranked = np.clip(scores, _SMALLEST_SCORE, 1 - _SMALLEST_SCORE)
    return np.floor(np.log(ranked / (1 - ranked)) * BUCKETS_PER_UNIT).astype(np.int64)


@dataclass
class Histogram:
    """Counts of negatives and positives by bucket, once per replicate.

    Attributes:
        replicates: R; 1 for the data alone.
        limit: most buckets; beyond it neighbors are joined in pairs, repeatedly if need be. The result does not depend
            on the order in which examples and histograms are added. None: no limit.
        level: how often neighbors were joined.
        keys_K: the buckets, rising.
        counts_K2R: weights of the examples.
        scores_K: sum of the scores of the data, times the examples' own weights if any.
        rows_K: number of examples of the data, or sum of their own weights.
        dtype: integer for counts, float for examples with weights of their own.
    """

    replicates: int
    limit: int | None = None
    level: int = 0
    keys_K: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts_K2R: NDArray[Any] = field(init=False)
    scores_K: Floats = field(default_factory=lambda: np.zeros(0))
    rows_K: Floats = field(default_factory=lambda: np.zeros(0))
    dtype: type[np.uint32] | type[np.float64] = np.uint32

    def __post_init__(self) -> None:
        """Starts empty."""
        self.counts_K2R = np.zeros((0, 2, self.replicates), self.dtype)

    def add(self, scores_N: Floats, is_positive_N: NDArray[np.bool_], weights_NR: NDArray[Any]) -> None:
        """Counts examples; the first column of the weights is for the data itself."""
        buckets_N = score_buckets(scores_N)
        self._join(self._level_for(np.unique(buckets_N >> self.level), self.level))
        keys_N = buckets_N >> self.level
        places_N = keys_N * 2 + is_positive_N
        order_N = np.argsort(places_N, kind="stable")
        starts = _starts(places_N[order_N])
        places = places_N[order_N][starts]
        keys_K, index = np.unique(places >> 1, return_inverse=True)
        counts_K2R = np.zeros((len(keys_K), 2, self.replicates), self.dtype)
        counts_K2R[index, places & 1] = np.add.reduceat(weights_NR[order_N], starts, axis=0, dtype=self.dtype)
        index_N = np.searchsorted(keys_K, keys_N)
        self._append(
            keys_K,
            counts_K2R,
            np.bincount(index_N, scores_N * weights_NR[:, 0], len(keys_K)).astype(np.float64),
            np.bincount(index_N, weights_NR[:, 0], len(keys_K)).astype(np.float64),
        )

    def merge(self, other: "Histogram") -> None:
        """Adds another histogram, which may join neighbors of `other`."""
        level = max(self.level, other.level)
        self._join(level)
        other._join(level)
        level = self._level_for(other.keys_K, level)
        self._join(level)
        other._join(level)
        self._append(other.keys_K, other.counts_K2R, other.scores_K, other.rows_K)

    def _level_for(self, keys: Ints, level: int) -> int:
        """Returns the level at which the own buckets and `keys`, given at `level`, are within the limit."""
        union = np.union1d(self.keys_K >> (level - self.level), keys)
        while self.limit is not None and len(union) > self.limit:
            level += 1
            union = np.unique(union >> 1)
        return level

    def _join(self, level: int) -> None:
        if level > self.level:
            keys_K, counts, scores, rows = self.keys_K >> (level - self.level), *self._values()
            self._clear(level)
            self._append(keys_K, counts, scores, rows)

    def _values(self) -> tuple[NDArray[Any], Floats, Floats]:
        return self.counts_K2R, self.scores_K, self.rows_K

    def _clear(self, level: int) -> None:
        self.level, self.keys_K = level, np.zeros(0, np.int64)
        self.counts_K2R, self.scores_K, self.rows_K = self.counts_K2R[:0], self.scores_K[:0], self.rows_K[:0]

    def _append(self, keys: Ints, counts: NDArray[Any], scores: Floats, rows: Floats) -> None:
        if not len(keys):
            return
        every = np.concatenate([self.keys_K, keys])
        order = np.argsort(every, kind="stable")
        starts = _starts(every[order])
        self.keys_K = every[order][starts]
        self.counts_K2R = np.add.reduceat(np.concatenate([self.counts_K2R, counts])[order], starts, axis=0)
        self.scores_K = np.add.reduceat(np.concatenate([self.scores_K, scores])[order], starts)
        self.rows_K = np.add.reduceat(np.concatenate([self.rows_K, rows])[order], starts)


def _starts(ordered: Ints) -> Ints:
    """Returns the index of each run of equal numbers."""
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def areas(histogram: Histogram) -> tuple[Floats, Floats]:
    """Returns AUC and average precision per replicate, NaN without examples of both classes.

    The AUC is the share of (negative, positive) pairs in the right order, ties counted half (Fawcett, An introduction
    to ROC analysis, 2006, section 7). The average precision is the sum over thresholds of the gain in recall times the
    precision, as in scikit-learn, except that it is undefined here if a class is missing.
    """
    counts = histogram.counts_K2R.astype(np.float64)
    negatives, positives = counts[:, 0], counts[:, 1]
    below = np.cumsum(negatives, axis=0) - negatives
    in_order = (positives * (below + negatives / 2)).sum(axis=0)
    num_negatives, num_positives = negatives.sum(axis=0), positives.sum(axis=0)
    above_positives = num_positives - np.cumsum(positives, axis=0) + positives
    above = above_positives + num_negatives - below
    precise = positives * ratio(above_positives, above, empty=0.0)
    is_one_class = (num_negatives == 0) | (num_positives == 0)
    precision = np.where(is_one_class, np.nan, ratio(precise.sum(axis=0), num_positives))
    return ratio(in_order, num_negatives * num_positives), precision


def calibration_buckets(histogram: Histogram) -> tuple[Floats, Floats, Floats]:
    """Returns sums of predictions, of positives and of examples by tenth of the examples, each [10, R].

    Tenths are by rising score. Examples of equal score all belong to the tenth that contains their middle one.
    """
    rows_KR = histogram.counts_K2R.sum(axis=1, dtype=np.float64)
    totals_R = rows_KR.sum(axis=0)
    middles_KR = np.cumsum(rows_KR, axis=0) - rows_KR / 2
    tenths_KR = np.floor(NUM_CALIBRATION_BUCKETS * ratio(middles_KR, totals_R, empty=0.0))
    # A bucket may contain only examples of weight 0.
    predictions_KR = rows_KR * ratio(histogram.scores_K, histogram.rows_K, empty=0.0)[:, None]
    sums = np.zeros((3, NUM_CALIBRATION_BUCKETS, histogram.replicates))
    for tenth in range(NUM_CALIBRATION_BUCKETS):
        is_in = tenths_KR == tenth
        for index, values in enumerate((predictions_KR, histogram.counts_K2R[:, 1], rows_KR)):
            sums[index, tenth] = (values * is_in).sum(axis=0)
    return sums[0], sums[1], sums[2]


def ratio(part: NDArray[np.generic], whole: NDArray[np.generic], empty: float = np.nan) -> Floats:
    """Returns part / whole, and `empty` where the whole is 0."""
    shape = np.broadcast_shapes(part.shape, whole.shape)
    return np.divide(part, whole, out=np.full(shape, empty), where=np.broadcast_to(whole != 0, shape))
