"""Averages of ranks that each train their own dense weights, by algorithm. Pure NumPy.

A rank sends its weights and adds the answer to its current ones, so updates made meanwhile are kept. The server stores
state by rank, so that a slow rank delays no other. Each server has a part of the weights: all operations are
elementwise.
"""

from typing import Any, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.spec.sync import Shadow

Vector = NDArray[np.float32]


class Center(Protocol):
    """The average of the ranks' weights, or the point they move towards."""

    def exchange(self, rank: int, w: Vector) -> Vector:
        """Takes a rank's weights; returns the change to add to them: [size] each."""

    def average(self) -> Vector:
        """Returns the model of all ranks: [size]."""


class Easgd:
    """d = a (w - c); c <- c + d; the rank: w <- w - d.

    Reference: Zhang, Choromanska, LeCun: Deep learning with elastic averaging SGD, NIPS 2015, algorithm 1.
    """

    def __init__(self, start: Vector, rate: float):
        """Takes the initial center, and the share of the distance that a rank moves in an exchange, in (0, 1]."""
        self._center, self._rate = start.copy(), np.float32(rate)

    def exchange(self, rank: int, w: Vector) -> Vector:
        """See `Center`."""
        del rank
        moved: Vector = self._rate * (w - self._center)
        self._center += moved
        return -moved

    def average(self) -> Vector:
        """See `Center`."""
        return self._center.copy()


class ModelAveraging:
    """m = the mean of the last weights of every rank; the rank: w <- w + a (m - w).

    Reference: Zheng et al.: ShadowSync, 2020, algorithm 3.
    """

    def __init__(self, start: Vector, rate: float):
        """Takes the initial average, and the share of the distance that a rank moves in an exchange."""
        self._start, self._rate = start.copy(), np.float32(rate)
        self._last: dict[int, Vector] = {}

    def exchange(self, rank: int, w: Vector) -> Vector:
        """See `Center`."""
        self._last[rank] = w.copy()
        moved: Vector = self._rate * (self.average() - w)
        return moved

    def average(self) -> Vector:
        """See `Center`."""
        return mean(self._last) if self._last else self._start.copy()


class BlockMomentum:
    """Once every rank has sent its weights again: v <- b v + (mean - c); c <- c + v. The rank: w <- w + a (c - w).

    Reference: Chen, Huo: Scalable training of deep learning machines by incremental block training with intra-block
    parallel optimization and blockwise model-update filtering, ICASSP 2016, equations 4 and 5, block learning rate 1.
    """

    def __init__(self, start: Vector, rate: float, *, momentum: float, ranks: int):
        """Takes the initial center, a, b, and the number of ranks in a round."""
        self._center, self._rate, self._momentum = start.copy(), np.float32(rate), np.float32(momentum)
        self._velocity = np.zeros_like(start)
        self._ranks = ranks
        self._round: dict[int, Vector] = {}

    def exchange(self, rank: int, w: Vector) -> Vector:
        """See `Center`."""
        self._round[rank] = w.copy()
        if len(self._round) >= self._ranks:
            self._velocity = self._momentum * self._velocity + (mean(self._round) - self._center)
            self._center += self._velocity
            self._round.clear()
        moved: Vector = self._rate * (self._center - w)
        return moved

    def average(self) -> Vector:
        """See `Center`."""
        return self._center.copy()


def mean(by_rank: dict[int, Vector]) -> Vector:
    """Returns the mean of the ranks' weights, summed in rank order."""
    total = np.zeros_like(next(iter(by_rank.values())))
    for rank in sorted(by_rank):
        total += by_rank[rank]
    total /= np.float32(len(by_rank))
    return total


def center_of(sync: Shadow, start: NDArray[Any], *, ranks: int) -> Center:
    """Returns the center that the spec sets.

    Args:
        sync: algorithm and rates.
        start: initial weights of all ranks: [size].
        ranks: number of ranks.
    """
    match sync.algorithm:
        case "easgd":
            return Easgd(start, sync.elastic_rate)
        case "ma":
            return ModelAveraging(start, sync.elastic_rate)
        case "bmuf":
            return BlockMomentum(start, sync.elastic_rate, momentum=sync.block_momentum, ranks=ranks)
        case _:
            assert_never(sync.algorithm)
