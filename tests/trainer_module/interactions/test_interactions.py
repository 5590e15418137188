"""Interactions of features against the papers' equations in NumPy."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from sangam.schemas.derived.weights import interaction_weights
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.weight import Blocks, width_of
from sangam.schemas.spec.models import DcnV2, Dlrm
from sangam.trainer_module.interactions import Interaction, build_interaction
from sangam.trainer_module.interactions.dlrm import pairwise_dots
from tests.errors import place_and_value
from tests.trainer_module.models import oracles
from tests.trainer_module.models.sample_models import INPUTS, NUM_FLOATS, WIDTH, examples, weights_of

pytestmark = pytest.mark.slow

EXAMPLES = examples()


class Built(NamedTuple):
    """An interaction with random weights, and their declaration."""

    interaction: Interaction
    weights: dict[str, Any]
    oracle: dict[str, Any]
    size: int
    outputs: Blocks

    def assert_equals(self, x: np.ndarray, expected: list[Any]) -> None:
        got = self.interaction(self.weights, tf.constant(x)).numpy()
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)
        assert got.shape[1] == width_of(self.outputs)


def built(declared: DcnV2 | Dlrm, inputs: ModelInputs = INPUTS) -> Built:
    interaction = build_interaction(declared, inputs=inputs, dropout=0.0)
    weights, outputs = interaction_weights(declared, inputs)
    size = sum(weight.size for weight in weights)
    random = weights_of(weights, scale=0.4) if weights else ({}, {})
    return Built(interaction, *random, size, outputs)


def test_full_crosses_equal_numpy() -> None:
    made = built(DcnV2(kind="dcn_v2", num_layers=3))
    made.assert_equals(EXAMPLES, [oracles.cross_full(made.oracle, x, layers=3) for x in EXAMPLES])
    assert made.size == 3 * 16 * 15
    assert made.outputs == INPUTS.blocks


def test_crosses_of_low_rank_equal_numpy() -> None:
    made = built(DcnV2(kind="dcn_v2", rank=4))
    made.assert_equals(EXAMPLES, [oracles.cross_low_rank(made.oracle, x, layers=2) for x in EXAMPLES])
    assert made.size == 2 * (2 * 4 * 15 + 15)


def test_mixed_crosses_equal_numpy() -> None:
    made = built(DcnV2(kind="dcn_v2", rank=4, num_experts=3))
    expected = [oracles.cross_mixed(made.oracle, x, layers=2, experts=3) for x in EXAMPLES]
    made.assert_equals(EXAMPLES, expected)
    assert made.size == 2 * (3 * (2 * 4 * 15 + 4 * 4) + 15 + 16 * 3)


def test_a_full_cross_is_one_of_the_highest_rank() -> None:
    full, weights, *_ = built(DcnV2(kind="dcn_v2", num_layers=1))
    low = build_interaction(DcnV2(kind="dcn_v2", num_layers=1, rank=WIDTH), inputs=INPUTS, dropout=0.0)
    name = "interaction/cross/0"
    same = {f"{name}/v": weights[f"{name}/w"], f"{name}/u": tf.eye(WIDTH), f"{name}/b": weights[f"{name}/b"]}
    x = tf.constant(EXAMPLES)
    np.testing.assert_allclose(low(same, x), full(weights, x), rtol=1e-6)


def test_the_deep_part_lies_beside_the_crosses() -> None:
    made = built(DcnV2(kind="dcn_v2", deep_units=(6, 5)))
    expected = [
        np.concatenate(
            [oracles.cross_full(made.oracle, x, layers=2), oracles.mlp(made.oracle, "interaction/deep", x, 2)]
        )
        for x in EXAMPLES
    ]
    made.assert_equals(EXAMPLES, expected)
    assert made.interaction.shared == ("interaction/cross/1/w", "interaction/deep/1/w")


@pytest.mark.parametrize("units", [(), (6,), (6, 5)])
def test_dlrm_equals_numpy(units: tuple[int, ...]) -> None:
    made = built(Dlrm(kind="dlrm", bottom_units=units))
    expected = [
        oracles.dlrm(made.oracle, x[:NUM_FLOATS], np.split(x[NUM_FLOATS:], 3), bottom_layers=len(units))
        for x in EXAMPLES
    ]
    made.assert_equals(EXAMPLES, expected)
    assert [name for name, _ in made.outputs[1:4]] == [
        "user interaction/bottom",
        "item interaction/bottom",
        "item user",
    ]
    sizes = [NUM_FLOATS, *units, 4]
    assert made.size == sum((a + 1) * b for a, b in itertools.pairwise(sizes))


def test_dlrm_without_floats_has_the_dots_alone() -> None:
    inputs = ModelInputs(embeddings=INPUTS.embeddings)
    made = built(Dlrm(kind="dlrm"), inputs)
    x = EXAMPLES[:, NUM_FLOATS:]
    made.assert_equals(x, [oracles.dlrm({}, row[:0], np.split(row, 3), bottom_layers=0) for row in x])
    assert made.size == 0


def test_dlrm_refuses_what_has_no_pairs() -> None:
    for inputs in (
        ModelInputs(embeddings=(("user", 4),)),
        ModelInputs(floats=(("age", 1),)),
        ModelInputs(embeddings=(("user", 4), ("item", 8))),
    ):
        with pytest.raises(ValueError, match=place_and_value("model.interaction", "two vectors")):
            built(Dlrm(kind="dlrm"), inputs)


def test_the_gradient_of_pairwise_dots_is_that_of_finite_differences() -> None:
    rng = np.random.default_rng(0)
    vectors, of_pairs = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 6))

    def total(v: np.ndarray) -> float:
        return float(tf.reduce_sum(pairwise_dots(tf.constant(v)) * of_pairs))

    expected, step = np.zeros_like(vectors), 1e-5
    for place in np.ndindex(*vectors.shape):
        shift = np.zeros_like(vectors)
        shift[place] = step
        expected[place] = (total(vectors + shift) - total(vectors - shift)) / (2 * step)
    with tf.GradientTape() as tape:
        v = tf.constant(vectors)
        tape.watch(v)
        value = tf.reduce_sum(pairwise_dots(v) * of_pairs)
    np.testing.assert_allclose(tape.gradient(value, v), expected, rtol=1e-7, atol=1e-9)
