"""Counts of binary examples by score, in buckets of equal width in log-odds; empty buckets take no memory.

TFMA's own AUC cuts [0, 1] into 10,000 equal buckets for any `num_thresholds`: the scores of an event with a rate
of 1 in 2,500 impressions share a dozen of them, and the AUC is wrong in the third digit. It also reports 0 for labels
of one class, for which the AUC is undefined.

Arrays carry shape suffixes: N examples, K buckets by rising score, 2 classes (negative, positive), R replicates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sangam.components.steps.evaluator.metrics.draws import Draws

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BUCKETS_PER_UNIT = 10_000
"""Buckets per unit of log-odds: scores that share a bucket differ by less than 0.01 %."""
_SMALLEST_SCORE = 1e-12
"""Scores are clipped this far from 0 and 1, far below float32's resolution at 1: 553,000 buckets."""
NUM_CALIBRATION_BUCKETS = 10
_MOST_WAITING = 65_536
"""Minimum number of waiting buckets that are added to the others: 2 MB."""


def score_buckets(scores: Floats) -> Ints:
    """Returns the bucket of each score in [0, 1]."""
    ranked = np.clip(scores, _SMALLEST_SCORE, 1 - _SMALLEST_SCORE)
    return np.floor(np.log(ranked / (1 - ranked)) * BUCKETS_PER_UNIT).astype(np.int64)


@dataclass(frozen=True)
class Bucketed:
    """Examples by bucket.

    Attributes:
        keys_K: non-empty buckets, ascending.
        index_N: index of each example's bucket in `keys_K`.
    """

    keys_K: Ints
    index_N: Ints


def bucketed(scores_N: Floats) -> Bucketed:
    """Returns which examples have scores in the same bucket."""
    keys_K, index_N = np.unique(score_buckets(scores_N), return_inverse=True)
    return Bucketed(keys_K, index_N)


@dataclass(frozen=True)
class _Counts:
    keys_K: Ints
    counts_K2R: NDArray[Any]
    scores_K: Floats


@dataclass
class Histogram:
    """Counts of negatives and positives by bucket, once per replicate.

    Attributes:
        replicates: R; 1 for the data alone.
        limit: maximum buckets; beyond it neighbors are joined in pairs, repeatedly if needed. The result does not
            depend on the order in which examples and histograms are added. None: no limit.
        level: number of times that neighbors were joined.
        keys_K: buckets, ascending.
        counts_K2R: weights of the examples.
        scores_K: sum of the scores of the data, times the examples' weights if any.
        dtype: integer for counts, float for sums of weights.
    """

    replicates: int
    limit: int | None = None
    level: int = 0
    keys_K: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts_K2R: NDArray[Any] = field(init=False)
    scores_K: Floats = field(default_factory=lambda: np.zeros(0))
    dtype: type[np.uint32] | type[np.float64] = np.uint32
    _waiting: list[_Counts] = field(default_factory=list)
    """Counts to add later: without replicates there are many small buckets, and each addition copies all of them."""

    def __post_init__(self) -> None:
        """Starts empty."""
        self.counts_K2R = np.zeros((0, 2, self.replicates), self.dtype)

    def add(
        self,
        examples: Bucketed,
        scores_N: Floats,
        is_positive_N: NDArray[np.bool_],
        draws: Draws,
        own_weights_N: Floats | None = None,
    ) -> None:
        """Counts examples, each by its number of draws, times its weight if any."""
        if self.limit is not None:
            self._join(self._level_for(_unique(examples.keys_K >> self.level), self.level))
        keys_K = examples.keys_K >> self.level
        is_first = _is_first(keys_K)
        index_N = (np.cumsum(is_first) - 1)[examples.index_N]
        keys_K = keys_K[is_first]
        places_N = index_N * 2 + is_positive_N
        own_scores_N = scores_N if own_weights_N is None else scores_N * own_weights_N
        counts = self._counted(places_N, 2 * len(keys_K), draws, own_weights_N)
        self._append(
            _Counts(
                keys_K,
                counts.reshape(len(keys_K), 2, self.replicates).astype(self.dtype),
                np.bincount(index_N, own_scores_N, len(keys_K)).astype(np.float64),
            )
        )

    def _counted(self, places_N: Ints, size: int, draws: Draws, own_weights_N: Floats | None) -> NDArray[Any]:
        """Returns the counts at each place, [size, R]."""
        if self.replicates == 1:
            return np.bincount(places_N, own_weights_N, size)
        times_NR = draws.singles_NR if own_weights_N is None else draws.doubles_NR
        weights_N = np.ones(len(places_N), np.float32) if own_weights_N is None else own_weights_N
        ends = np.arange(len(places_N) + 1, dtype=np.int32)
        # One non-zero in each column: SciPy adds each example's row to the row of its place.
        return sparse.csc_matrix((weights_N, places_N.astype(np.int32), ends), (size, len(places_N))) @ times_NR

    def merge(self, other: "Histogram") -> None:
        """Adds another histogram, which may join neighbors of `other`."""
        other.settle()
        level = max(self.level, other.level)
        self._join(level)
        other._join(level)
        level = self._level_for(other.keys_K, level)
        self._join(level)
        other._join(level)
        self._append(_Counts(other.keys_K, other.counts_K2R, other.scores_K))

    def settle(self) -> None:
        """Puts all counts into the arrays."""
        if self._waiting:
            parts, self._waiting = [self._counts(), *self._waiting], []
            self._set(_summed(parts))

    def __getstate__(self) -> dict[str, Any]:
        """Returns the arrays, the state to pickle."""
        self.settle()
        return self.__dict__

    def _counts(self) -> _Counts:
        return _Counts(self.keys_K, self.counts_K2R, self.scores_K)

    def _set(self, counts: _Counts) -> None:
        self.keys_K, self.counts_K2R, self.scores_K = counts.keys_K, counts.counts_K2R, counts.scores_K

    def _level_for(self, keys: Ints, level: int) -> int:
        """Returns the level at which the own buckets and `keys`, given at `level`, are within the limit."""
        if self.limit is None:
            return level
        union = np.union1d(self.keys_K >> (level - self.level), keys)
        while len(union) > self.limit:
            level += 1
            union = _unique(union >> 1)
        return level

    def _join(self, level: int) -> None:
        if level > self.level:
            self._set(_summed([_Counts(self.keys_K >> (level - self.level), self.counts_K2R, self.scores_K)]))
            self.level = level

    def _append(self, counts: _Counts) -> None:
        if not len(counts.keys_K):
            return
        if self.limit is not None:
            self._add_replicates(counts)
            return
        self._waiting.append(counts)
        if sum(len(waiting.keys_K) for waiting in self._waiting) > max(_MOST_WAITING, len(self.keys_K)):
            self.settle()

    def _add_replicates(self, counts: _Counts) -> None:
        """Adds counts in place: the replicates' counts are large."""
        keys = np.union1d(self.keys_K, counts.keys_K)
        if len(keys) > len(self.keys_K):
            places = np.searchsorted(keys, self.keys_K)
            grown = _Counts(keys, np.zeros((len(keys), 2, self.replicates), self.dtype), np.zeros(len(keys)))
            grown.counts_K2R[places], grown.scores_K[places] = self.counts_K2R, self.scores_K
            self._set(grown)
        places = np.searchsorted(keys, counts.keys_K)
        self.counts_K2R[places] += counts.counts_K2R
        self.scores_K[places] += counts.scores_K


def _summed(parts: Sequence[_Counts]) -> _Counts:
    """Returns the sums by bucket, as new arrays."""
    keys, index = np.unique(np.concatenate([part.keys_K for part in parts]), return_inverse=True)
    counts = np.concatenate([part.counts_K2R for part in parts])
    scores = np.concatenate([part.scores_K for part in parts])
    if counts.shape[2] == 1:
        sums = [np.bincount(index, counts[:, each, 0], len(keys)) for each in (0, 1)]
        summed = np.stack(sums, axis=1)[:, :, None].astype(counts.dtype)
    else:
        summed = np.zeros((len(keys), *counts.shape[1:]), counts.dtype)
        np.add.at(summed, index, counts)
    return _Counts(keys, summed, np.bincount(index, scores, len(keys)).astype(np.float64))


def _is_first(ordered: Ints) -> NDArray[np.bool_]:
    """Returns which of ordered numbers differ from the one before."""
    return np.concatenate([np.ones(min(len(ordered), 1), bool), ordered[1:] != ordered[:-1]])


def _unique(ordered: Ints) -> Ints:
    return ordered[_is_first(ordered)]


def areas(histogram: Histogram) -> tuple[Floats, Floats]:
    """Returns AUC and average precision per replicate, NaN without examples of both classes.

    The AUC is the share of (negative, positive) pairs in the right order, ties counted half (Fawcett, An introduction
    to ROC analysis, 2006, section 7). The average precision is the sum over thresholds of the gain in recall times the
    precision, as in scikit-learn, except that it is undefined here if a class is missing.
    """
    histogram.settle()
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

    Tenths are by ascending score. Examples of equal score all belong to the tenth that contains their middle one.
    """
    histogram.settle()
    rows_KR = histogram.counts_K2R.sum(axis=1, dtype=np.float64)
    totals_R = rows_KR.sum(axis=0)
    middles_KR = np.cumsum(rows_KR, axis=0) - rows_KR / 2
    tenths_KR = np.floor(NUM_CALIBRATION_BUCKETS * ratio(middles_KR, totals_R, empty=0.0))
    # All examples of a bucket may have weight 0.
    predictions_KR = rows_KR * ratio(histogram.scores_K, rows_KR[:, 0], empty=0.0)[:, None]
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
