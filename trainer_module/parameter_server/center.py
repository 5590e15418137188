"""Dense weights that ranks with weights of their own move towards, by algorithm. Pure NumPy.

A rank sends its weights and adds the answer to them, whatever it has learned meanwhile: no update is lost. The rank
names itself, so that a slow or late one holds up no other. A server has a part of the weights: everything
here is element by element.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_never

from schemas.spec.sync import Shadow

Vector = NDArray[np.float32]


class Center(Protocol):
    """What the ranks' weights are averaged into."""

    def exchange(self, rank: int, w: Vector) -> Vector:
        """Takes a rank's weights; returns what the rank must add to its own: [size] each."""

    def average(self) -> Vector:
        """Returns the model of all ranks: [size]."""


class Easgd:
    """d = a (w - c); c <- c + d; the rank: w <- w - d.

    Reference: Zhang, Choromanska, LeCun: Deep learning with elastic averaging SGD, NIPS 2015, algorithm 1.
    """

    def __init__(self, start: Vector, rate: float):
        """Takes the center at the start, and how far a rank moves in an exchange, in (0, 1]."""
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
        """Takes the average before any rank has sent its weights, and how far a rank moves."""
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
        """Takes the center at the start, how far a rank moves, b, and how many ranks make a round."""
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
    """Returns the mean of the ranks' weights, summed in the order of the ranks."""
    total = np.zeros_like(next(iter(by_rank.values())))
    for rank in sorted(by_rank):
        total += by_rank[rank]
    total /= np.float32(len(by_rank))
    return total


def center_of(sync: Shadow, start: NDArray[Any], *, ranks: int) -> Center:
    """Returns the center that a spec declares.

    Args:
        sync: algorithm and rates.
        start: [size], the weights that all ranks start with.
        ranks: how many there are.
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
