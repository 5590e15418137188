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

from sangam.components.steps.evaluator.metrics.draws import Draws

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BUCKETS_PER_UNIT = 10_000
"""Buckets per unit of log-odds: scores that share a bucket differ by less than 0.01 %."""
_SMALLEST_SCORE = 1e-12
"""Scores are clipped this far from 0 and 1, far below float32's resolution at 1: 553,000 buckets."""
NUM_CALIBRATION_BUCKETS = 10
_STEPS = 16
"""Buckets whose running sums are computed beside those of other blocks."""
_WIDEST = 16
"""Most possible buckets per example among which those in use are found by marking them."""
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
    return Bucketed(*_numbered(score_buckets(scores_N)))


def _numbered(buckets_N: Ints) -> tuple[Ints, Ints]:
    """Returns the buckets that occur, ascending, and the number of each: `np.unique`, without its sort."""
    lowest = int(buckets_N.min(initial=0))
    spread = int(buckets_N.max(initial=0)) - lowest + 1
    if spread > _WIDEST * len(buckets_N):
        keys_K, index_N = np.unique(buckets_N, return_inverse=True)
        return keys_K, index_N
    is_used = np.zeros(spread, bool)
    is_used[buckets_N - lowest] = True
    numbers = np.cumsum(is_used) - 1
    return np.flatnonzero(is_used) + lowest, numbers[buckets_N - lowest]


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
        is_first_K = is_first(keys_K)
        index_N = (np.cumsum(is_first_K) - 1)[examples.index_N]
        keys_K = keys_K[is_first_K]
        places_N = index_N * 2 + is_positive_N
        own_scores_N = scores_N if own_weights_N is None else scores_N * own_weights_N
        counts = draws.first(self.replicates - 1).counted(places_N, 2 * len(keys_K), own_weights_N)
        self._append(
            _Counts(
                keys_K,
                counts.reshape(len(keys_K), 2, self.replicates).astype(self.dtype),
                np.bincount(index_N, own_scores_N, len(keys_K)).astype(np.float64),
            )
        )

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
        union, _ = _numbered(np.concatenate([self.keys_K >> (level - self.level), keys]))
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
        keys, index = _numbered(np.concatenate([self.keys_K, counts.keys_K]))
        own, places = np.split(index, [len(self.keys_K)])
        if len(keys) > len(self.keys_K):
            grown = _Counts(keys, np.zeros((len(keys), 2, self.replicates), self.dtype), np.zeros(len(keys)))
            grown.counts_K2R[own], grown.scores_K[own] = self.counts_K2R, self.scores_K
            self._set(grown)
        self.counts_K2R[places] += counts.counts_K2R
        self.scores_K[places] += counts.scores_K


def _summed(parts: Sequence[_Counts]) -> _Counts:
    """Returns the sums by bucket, as new arrays."""
    keys, index = _numbered(np.concatenate([part.keys_K for part in parts]))
    counts = np.concatenate([part.counts_K2R for part in parts])
    scores = np.concatenate([part.scores_K for part in parts])
    if counts.shape[2] == 1:
        sums = [np.bincount(index, counts[:, each, 0], len(keys)) for each in (0, 1)]
        summed = np.stack(sums, axis=1)[:, :, None].astype(counts.dtype)
    else:
        summed = np.zeros((len(keys), *counts.shape[1:]), counts.dtype)
        np.add.at(summed, index, counts)
    return _Counts(keys, summed, np.bincount(index, scores, len(keys)).astype(np.float64))


def is_first(ordered: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Returns which of ordered numbers differ from the one before."""
    return np.concatenate([np.ones(min(len(ordered), 1), bool), ordered[1:] != ordered[:-1]])


def _unique(ordered: Ints) -> Ints:
    return ordered[is_first(ordered)]


@dataclass(frozen=True)
class Ordered:
    """The counts of a histogram by rising score, and in all buckets up to each one.

    Attributes:
        negatives_KR: negatives.
        positives_KR: positives.
        negatives_to_KR: negatives of this bucket and those before.
        positives_to_KR: positives of this bucket and those before.
        scores_K: sum of the scores of the data.
    """

    negatives_KR: Floats
    positives_KR: Floats
    negatives_to_KR: Floats
    positives_to_KR: Floats
    scores_K: Floats

    @classmethod
    def of(cls, histogram: Histogram) -> "Ordered":
        """Returns the counts of a histogram."""
        histogram.settle()
        negatives_KR, positives_KR = (histogram.counts_K2R[:, each].astype(np.float64) for each in (0, 1))
        sums = map(_running_sums, (negatives_KR, positives_KR))
        return cls(negatives_KR, positives_KR, *sums, histogram.scores_K)


def _running_sums(values_KR: Floats) -> Floats:
    """Returns the sums of each bucket and those before: `np.cumsum`, which adds one number after another."""
    size, replicates = values_KR.shape
    if replicates == 1 or size < _STEPS:
        return np.cumsum(values_KR, axis=0)
    whole = size - size % _STEPS
    blocks_BSR = values_KR[:whole].reshape(-1, _STEPS, replicates).copy()
    for step in range(1, _STEPS):
        blocks_BSR[:, step] += blocks_BSR[:, step - 1]
    blocks_BSR[1:] += np.cumsum(blocks_BSR[:-1, -1], axis=0)[:, None]
    sums_KR = np.empty_like(values_KR)
    sums_KR[:whole] = blocks_BSR.reshape(whole, replicates)
    sums_KR[whole:] = sums_KR[whole - 1] + np.cumsum(values_KR[whole:], axis=0)
    return sums_KR


def areas(counts: Ordered) -> tuple[Floats, Floats]:
    """Returns AUC and average precision per replicate, NaN without examples of both classes.

    The AUC is the share of (negative, positive) pairs in the right order, ties counted half (Fawcett, An introduction
    to ROC analysis, 2006, section 7). The average precision is the sum over thresholds of the gain in recall times the
    precision, as in scikit-learn, except that it is undefined here if a class is missing.
    """
    num_negatives, num_positives = counts.negatives_KR.sum(axis=0), counts.positives_KR.sum(axis=0)
    before = counts.negatives_to_KR - counts.negatives_KR / 2
    in_order = np.einsum("kr,kr->r", counts.positives_KR, before)
    above_positives = counts.positives_KR - counts.positives_to_KR
    above_positives += num_positives
    above = counts.negatives_KR - counts.negatives_to_KR
    above += num_negatives
    above += above_positives
    # Nothing is above where nothing is in the bucket either.
    np.divide(above_positives, above, out=above, where=above > 0)
    precise = np.einsum("kr,kr->r", counts.positives_KR, above)
    is_one_class = (num_negatives == 0) | (num_positives == 0)
    precision = np.where(is_one_class, np.nan, ratio(precise, num_positives))
    return ratio(in_order, num_negatives * num_positives), precision


def calibration_buckets(counts: Ordered) -> tuple[Floats, Floats, Floats]:
    """Returns sums of predictions, of positives and of examples by tenth of the examples, each [10, R].

    Tenths are by ascending score. Examples of equal score all belong to the tenth that contains their middle one.
    """
    rows_KR = counts.negatives_KR + counts.positives_KR
    so_far_KR = counts.negatives_to_KR + counts.positives_to_KR
    middles_RK = np.ascontiguousarray((so_far_KR - rows_KR / 2).T)
    borders_RT = rows_KR.sum(axis=0)[:, None] * np.arange(1, NUM_CALIBRATION_BUCKETS) / NUM_CALIBRATION_BUCKETS
    ends_TR = np.stack([np.searchsorted(*each) for each in zip(middles_RK, borders_RT, strict=True)], axis=1)
    # All examples of a bucket may have weight 0.
    predictions_KR = rows_KR * ratio(counts.scores_K, rows_KR[:, 0], empty=0.0)[:, None]
    sums_KR = (_running_sums(predictions_KR), counts.positives_to_KR, so_far_KR)
    predictions, positives, rows = (_between(each, ends_TR) for each in sums_KR)
    return predictions, positives, rows


def _between(so_far_KR: Floats, ends_TR: Ints) -> Floats:
    """Returns sums of buckets, from one end to the next one, of cumulative sums: [1 + T, R]."""
    if not len(so_far_KR):
        return np.zeros((1 + len(ends_TR), so_far_KR.shape[1]))
    before_TR = np.where(ends_TR > 0, np.take_along_axis(so_far_KR, np.maximum(ends_TR - 1, 0), axis=0), 0.0)
    return np.diff(before_TR, axis=0, prepend=0.0, append=so_far_KR[-1:])


def ratio(part: NDArray[np.generic], whole: NDArray[np.generic], empty: float = np.nan) -> Floats:
    """Returns part / whole, and `empty` where the whole is 0."""
    shape = np.broadcast_shapes(part.shape, whole.shape)
    return np.divide(part, whole, out=np.full(shape, empty), where=np.broadcast_to(whole != 0, shape))
