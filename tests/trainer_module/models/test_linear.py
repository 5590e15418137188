"""The linear layer beside an architecture: a product by NumPy, added to the plain model's logits."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sangam.schemas.derived.weights import LINEAR
from sangam.trainer_module.dense import fused
from sangam.trainer_module.dense.weights import FlatWeights
from tests.trainer_module.models.sample_models import TASKS, WIDTH, small
from tests.trainer_module.models.test_models import INTERACTIONS, MODELS, assert_close, declared

pytestmark = pytest.mark.slow

KINDS = [kind for kind in MODELS if kind != "esmm"]


@pytest.mark.parametrize("interaction", ["none", "dcn_v2", "dlrm"])
@pytest.mark.parametrize("kind", KINDS)
def test_its_product_is_added_to_the_logits_of_every_architecture(kind: str, interaction: str) -> None:
    changes: dict[str, Any] = {"interaction": INTERACTIONS[interaction]}
    made, plain = small(declared(kind, linear={}, **changes)), small(declared(kind, **changes))
    assert made.size == plain.size + WIDTH * len(TASKS)
    assert made.model.shared == plain.model.shared
    expected = plain.model(made.weights, tf.constant(made.x)).numpy() + made.x @ made.oracle[LINEAR]
    assert_close(made.logits(), expected)


def test_it_starts_as_the_model_without_it() -> None:
    made, plain = small(declared("mmoe", linear={})), small(declared("mmoe"))
    starts = [FlatWeights(each.declared) for each in (made, plain)]
    with_it, without = (flat.unpack(tf.constant(flat.initial(3))) for flat in starts)
    x = tf.constant(made.x)
    np.testing.assert_array_equal(made.model(with_it, x), plain.model(without, x))


@pytest.mark.parametrize("in_training", [False, True])
def test_its_gradient_is_the_examples_times_that_of_the_logits(in_training: bool) -> None:
    made = small(declared("shared_bottom", linear={}))
    of_logits = np.random.default_rng(2).normal(size=(len(made.x), len(TASKS))).astype(np.float32)
    x, matrix = tf.constant(made.x), tf.constant(made.weights[LINEAR])
    with fused.in_training(on_host=in_training), tf.GradientTape() as tape:
        tape.watch([x, matrix])
        logits = made.model({**made.weights, LINEAR: matrix}, x)
    of_matrix, of_x = tape.gradient(logits, [matrix, x], tf.constant(of_logits))
    np.testing.assert_allclose(of_matrix, made.x.T @ of_logits, rtol=1e-4, atol=1e-5)
    plain = small(declared("shared_bottom"))
    x = tf.constant(made.x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = plain.model(made.weights, x)
    beside = of_logits @ made.weights[LINEAR].numpy().T
    np.testing.assert_allclose(of_x, tape.gradient(logits, x, tf.constant(of_logits)) + beside, rtol=1e-4, atol=1e-5)
