"""The cross against equation 2 in NumPy."""

import numpy as np
import pytest
from sangam_example_parts import LowRankCross

from sangam.parts import ModelInputs
from sangam.testing import check_part

pytestmark = pytest.mark.slow
PART = LowRankCross(kind="low_rank_cross", rank=2)
INPUTS = ModelInputs(floats=(("price", 1),), embeddings=(("user", 4),))


def test_equation_2() -> None:
    generator = np.random.default_rng(0)
    weights = {each.name: generator.normal(size=each.shape).astype(np.float32) for each in PART.weights(INPUTS)}
    x_BI = generator.normal(size=(3, 5)).astype(np.float32)
    expected = x_BI
    for layer in (0, 1):
        v, u, b = (weights[f"low_rank_cross/{layer}/{name}"].astype(float) for name in ("v", "u/w", "u/b"))
        expected = x_BI * (expected @ (v @ u) + b) + expected
    np.testing.assert_allclose(PART.interact(weights, x_BI, INPUTS, None), expected, rtol=1e-5)


def test_its_weights_are_two_narrow_matrices_and_a_bias() -> None:
    assert [each.shape for each in PART.weights(INPUTS)] == [(5, 2), (2, 5), (5,)] * 2


@pytest.mark.long
def test_it_holds_what_every_part_promises() -> None:
    check_part(PART)
