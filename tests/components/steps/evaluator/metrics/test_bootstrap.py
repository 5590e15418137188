"""The Poisson bootstrap: weights that are Poisson, the same everywhere, and intervals of the right width."""

import math

import numpy as np
import pytest

from sangam.components.steps.evaluator.metrics.bootstrap import interval, weights
from sangam.schemas.host.splitmix64 import mix64

UNITS = mix64(np.arange(40_000, dtype=np.uint64))


def test_weights_have_the_mean_the_variance_and_the_chances_of_a_poisson_distribution() -> None:
    drawn = weights(UNITS, 100, seed=1)[:, 1:].astype(float)
    assert drawn.mean() == pytest.approx(1, abs=0.003)
    assert drawn.var() == pytest.approx(1, abs=0.01)
    for count in range(6):
        assert (drawn == count).mean() == pytest.approx(math.exp(-1) / math.factorial(count), abs=0.001)


def test_weights_of_different_units_replicates_and_seeds_are_not_correlated() -> None:
    drawn = weights(UNITS, 9, seed=1)[:, 1:].astype(float)
    other = weights(UNITS, 9, seed=2)[:, 1:].astype(float)
    between = np.corrcoef(np.concatenate([drawn.T, other.T])) - np.eye(18)
    assert np.abs(between).max() < 0.025
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.025


def test_the_first_column_is_the_data_as_they_are() -> None:
    assert weights(UNITS[:5], 3, seed=1)[:, 0].tolist() == [1] * 5
    assert weights(UNITS[:5], 0, seed=1).shape == (5, 1)
    assert weights(UNITS[:0], 3, seed=1).shape == (0, 4)


def test_a_unit_weighs_the_same_wherever_it_is_met_and_whatever_the_number_of_replicates() -> None:
    together = weights(UNITS, 10, seed=1)
    np.testing.assert_array_equal(weights(UNITS[70:75], 10, seed=1), together[70:75])
    np.testing.assert_array_equal(weights(UNITS[70:75], 7, seed=1), together[70:75, :8])


def test_weights_never_change_as_blessed_models_were_judged_by_them() -> None:
    units = np.array([1, 2, 2**63], np.uint64)
    assert weights(units, 8, seed=1)[:, 1:].tolist() == [
        [0, 0, 1, 1, 0, 3, 0, 0],
        [0, 0, 3, 1, 2, 1, 3, 0],
        [1, 0, 1, 2, 1, 0, 0, 0],
    ]


def test_the_interval_of_a_mean_has_the_width_that_its_standard_error_says() -> None:
    values = np.random.default_rng(1).normal(3, 2, len(UNITS))
    drawn = weights(UNITS, 1000, seed=1)[:, 1:].astype(float)
    lower, upper = interval(((values @ drawn) / drawn.sum(axis=0)).tolist(), level=0.95)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert lower == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert upper == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_an_interval_needs_nine_tenths_of_its_replicates() -> None:
    assert interval([1.0] * 9 + [math.nan], level=0.9) == (1.0, 1.0)
    assert interval([1.0] * 8 + [math.nan] * 2, level=0.9) is None
    assert interval([], level=0.9) is None
