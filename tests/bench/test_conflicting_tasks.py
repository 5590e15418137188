"""The synthetic tasks whose correlation is set."""

import numpy as np
import pytest

from bench.quality.conflicting_tasks import NOISE, generate


def test_tasks_of_correlation_one_differ_by_their_noise_alone() -> None:
    _, labels = generate(1.0, seed=3, num_examples=20_000, dim=10)
    assert np.std(labels[:, 0] - labels[:, 1]) == pytest.approx(np.sqrt(2) * NOISE, rel=0.03)


@pytest.mark.parametrize("correlation", [0.5, 0.0])
def test_the_tasks_directions_have_the_correlation_as_their_cosine(correlation: float) -> None:
    x, labels = generate(correlation, seed=3, num_examples=100_000, dim=10)
    # E[x f(w^T x)] points to w (Stein's lemma).
    directions = x.T @ labels
    first, second = (directions / np.linalg.norm(directions, axis=0)).T
    assert first @ second == pytest.approx(correlation, abs=0.03)


def test_a_seed_makes_its_own_tasks_and_always_the_same() -> None:
    for one, other in zip(generate(0.5, 1, 50, 4), generate(0.5, 1, 50, 4), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.allclose(generate(0.5, 1, 50, 4)[1], generate(0.5, 2, 50, 4)[1])
