"""Each algorithm of averaging against a few lines of NumPy, under a script of who exchanges when."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sangam.schemas.spec.sync import Shadow
from sangam.trainer_module.parameter_server.center import center_of

Vector = NDArray[Any]

RANKS, SIZE, RATE, MOMENTUM = 3, 17, 0.25, 0.5
SCRIPT = (0, 1, 2, 0, 0, 2, 1, 0, 1, 1, 1, 2, 0, 2, 2, 1, 0)
"""Which rank exchanges; rank 0 is fast at first, rank 1 in the middle."""


class _Easgd:
    def __init__(self, start: Vector):
        self.c = start

    def __call__(self, rank: int, w: Vector) -> Vector:
        del rank
        d = RATE * (w - self.c)
        self.c = self.c + d
        return -d

    def model(self) -> Vector:
        return self.c


class _Ma:
    def __init__(self, start: Vector):
        del start
        self.last: dict[int, Vector] = {}

    def __call__(self, rank: int, w: Vector) -> Vector:
        self.last[rank] = w
        return RATE * (self.model() - w)

    def model(self) -> Vector:
        mean: Vector = np.mean([self.last[rank] for rank in sorted(self.last)], axis=0)
        return mean


class _Bmuf:
    def __init__(self, start: Vector):
        self.c, self.v, self.sent = start, 0 * start, dict[int, Vector]()

    def __call__(self, rank: int, w: Vector) -> Vector:
        self.sent[rank] = w
        if set(self.sent) == set(range(RANKS)):
            self.v = MOMENTUM * self.v + np.mean([self.sent[rank] for rank in range(RANKS)], axis=0) - self.c
            self.c, self.sent = self.c + self.v, {}
        return RATE * (self.c - w)

    def model(self) -> Vector:
        return self.c


ORACLES: dict[str, Callable[[Vector], Any]] = {"easgd": _Easgd, "ma": _Ma, "bmuf": _Bmuf}


def _sync(algorithm: str, rate: float = RATE) -> Shadow:
    momentum = {"block_momentum": MOMENTUM} if algorithm == "bmuf" else {}
    return Shadow.model_validate({"kind": "shadow", "algorithm": algorithm, "elastic_rate": rate, **momentum})


@pytest.mark.parametrize("algorithm", ORACLES)
def test_under_a_script_an_algorithm_gives_what_its_formulas_give(algorithm: str) -> None:
    generator = np.random.default_rng(0)
    start = generator.normal(size=SIZE).astype(np.float32)
    center = center_of(_sync(algorithm), start, ranks=RANKS)
    oracle = ORACLES[algorithm](start.astype(np.float64))
    np.testing.assert_array_equal(center.average(), start)
    weights = [start.copy() for _ in range(RANKS)]
    expected = [start.astype(np.float64) for _ in range(RANKS)]
    for rank in SCRIPT:
        # What the rank has learned since; each rank learns something else.
        learned = generator.normal(size=SIZE).astype(np.float32) + np.float32(rank)
        weights[rank] = weights[rank] + learned
        expected[rank] = expected[rank] + learned
        weights[rank] = weights[rank] + center.exchange(rank, weights[rank])
        expected[rank] = expected[rank] + oracle(rank, expected[rank])
        np.testing.assert_allclose(weights[rank], expected[rank], atol=1e-6, rtol=1e-6)
        np.testing.assert_allclose(center.average(), oracle.model(), atol=1e-6, rtol=1e-6)
    assert center.average().dtype == np.float32


@pytest.mark.parametrize("algorithm", ORACLES)
def test_a_center_keeps_nothing_that_its_callers_may_change(algorithm: str) -> None:
    start, w = np.zeros(SIZE, np.float32), np.ones(SIZE, np.float32)
    centers = [center_of(_sync(algorithm), start.copy(), ranks=1) for _ in range(2)]
    sent = w.copy()
    centers[0].exchange(0, sent)[:] = 7.0
    sent[:] = 8.0
    centers[0].average()[:] = 9.0
    centers[1].exchange(0, w)
    np.testing.assert_array_equal(centers[0].average(), centers[1].average())
    np.testing.assert_array_equal(w, np.ones(SIZE, np.float32))


def test_elastic_averaging_creates_and_loses_nothing() -> None:
    """What a rank gives, the center takes: their sum stays (Zhang et al., section 2)."""
    generator = np.random.default_rng(1)
    # Multiples of 2^-10: every sum below is exact.
    weights = [np.round(generator.normal(size=SIZE) * 1024).astype(np.float32) / 1024 for _ in range(RANKS)]
    center = center_of(_sync("easgd", 0.5), np.zeros(SIZE, np.float32), ranks=RANKS)
    total = sum(weights)
    for rank in (0, 1, 2, 0):
        weights[rank] = weights[rank] + center.exchange(rank, weights[rank])
        np.testing.assert_array_equal(sum(weights) + center.average(), total)


def test_blocks_without_momentum_and_with_rate_1_are_the_mean_of_the_ranks() -> None:
    sync = Shadow.model_validate({"kind": "shadow", "algorithm": "bmuf", "elastic_rate": 1.0})
    center = center_of(sync, np.zeros(2, np.float32), ranks=2)
    first = np.array([1.0, 3.0], np.float32)
    np.testing.assert_array_equal(first + center.exchange(0, first), [0.0, 0.0])
    second = np.array([2.0, 5.0], np.float32)
    np.testing.assert_array_equal(second + center.exchange(1, second), [1.5, 4.0])
    np.testing.assert_array_equal(center.average(), [1.5, 4.0])


def test_a_late_rank_holds_up_no_other_and_its_last_weights_stay_in_the_mean() -> None:
    center = center_of(_sync("ma", 1.0), np.zeros(1, np.float32), ranks=2)
    center.exchange(1, np.array([4.0], np.float32))
    w = np.array([0.0], np.float32)
    for expected in (2.0, 3.0, 3.5):
        w = w + center.exchange(0, w)
        assert float(w[0]) == expected
