"""Bins and distances against SciPy, in exact small numbers."""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from sangam.components.drift.distances import cuts_of, jensen_shannon, l_infinity, shares_of


def test_bins_end_at_numbers_whose_shares_are_known_and_a_frequent_number_is_alone() -> None:
    edges, at_most = np.array([-1.0, 0.0, 1.0, 2.0, 9.0]), np.array([0.0, 0.9, 0.95, 0.96, 1.0])
    cuts = cuts_of(edges, at_most)
    assert cuts.tolist() == [0.0, 1.0]
    np.testing.assert_allclose(shares_of(cuts, edges, at_most), [0.9, 0.05, 0.05])


@pytest.mark.parametrize(("now", "expected"), [(1.0, 0.0), (0.0, 1.0), (2.0, 1.0)])
def test_another_number_than_the_only_one_of_training_is_as_far_as_can_be(now: float, expected: float) -> None:
    trained = np.array([1.0]), np.array([1.0])
    cuts = cuts_of(*trained)
    p, q = (shares_of(cuts, *side) for side in (trained, (np.array([now]), np.array([1.0]))))
    assert jensen_shannon(p, q) == expected


def test_divergence_is_scipy_s_and_has_no_trouble_with_empty_bins() -> None:
    p, q = np.array([0.5, 0.5, 0.0, 0.0]), np.array([0.2, 0.3, 0.5, 0.0])
    assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)
    assert l_infinity(p, q) == 0.5
    assert l_infinity(np.zeros(0), np.zeros(0)) == 0.0
    assert cuts_of(np.zeros(0), np.zeros(0)).size == 0
