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


def ratio(part: NDArray[np.generic], whole: NDArray[np.generic], empty: float = np.nan) -> Floats:
    """Returns part / whole, and `empty` where the whole is 0."""
    shape = np.broadcast_shapes(part.shape, whole.shape)
    return np.divide(part, whole, out=np.full(shape, empty), where=np.broadcast_to(whole != 0, shape))
