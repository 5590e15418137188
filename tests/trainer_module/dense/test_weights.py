"""Dense layers, MMoE and the ranker's loss against NumPy."""

import numpy as np
import pytest

from sangam.schemas.derived.weights import model_weights
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.spec.models import Mmoe

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def test_mmoe_equals_numpy() -> None:
    from sangam.trainer_module.dense.weights import FlatWeights
    from sangam.trainer_module.models.mmoe import MmoeModel

    spec = Mmoe(kind="mmoe", num_experts=3, expert_units=(5, 4), tower_units=(2,))
    model = MmoeModel(spec, ("a", "b"))
    layout = FlatWeights(model_weights(spec, ModelInputs(floats=(("x", 6),)), ("a", "b")))
    flat = np.random.default_rng(0).normal(size=layout.size).astype(np.float32)
    w = layout.by_name(flat)
    x = np.random.default_rng(1).normal(size=(7, 6)).astype(np.float32)

    first = _relu(x @ w["experts/first/w"] + w["experts/first/b"]).reshape(7, 3, 5)
    experts = [_relu(first[:, e] @ w[f"experts/{e}/0/w"] + w[f"experts/{e}/0/b"]) for e in range(3)]
    gates = (x @ w["expert_gates/w"] + w["expert_gates/b"]).reshape(7, 2, 3)
    gates = np.exp(gates) / np.exp(gates).sum(-1, keepdims=True)
    expected = []
    for position, task in enumerate(("a", "b")):
        mixed = sum(gates[:, position, e, None] * experts[e] for e in range(3))
        tower = _relu(mixed @ w[f"towers/{task}/0/w"] + w[f"towers/{task}/0/b"])
        expected.append(tower @ w[f"heads/{task}/w"] + w[f"heads/{task}/b"])
    got = model(layout.unpack(tf.constant(flat)), tf.constant(x)).numpy()
    np.testing.assert_allclose(got, np.concatenate(expected, 1), rtol=1e-4, atol=1e-4)
    assert layout.size == 6 * 15 + 15 + 3 * (5 * 4 + 4) + 6 * 6 + 6 + 2 * (4 * 2 + 2) + 2 * (2 + 1)


def test_initial_weights_depend_on_seed_and_name_and_follow_glorot() -> None:
    from sangam.schemas.parts.weight import Weight
    from sangam.trainer_module.dense.initial import initial

    weight = Weight("layer/w", (300, 200))
    start = initial(weight, 1)
    np.testing.assert_array_equal(start, initial(Weight("layer/w", (300, 200)), 1))
    assert not np.array_equal(start, initial(weight, 2))
    assert not np.array_equal(start, initial(Weight("other/w", (300, 200)), 1))
    limit = np.sqrt(6 / 500)
    assert 0.99 * limit < start.max() <= limit
    # Four fused networks of 50 columns each start as four networks, not as one of 200 columns.
    assert initial(Weight("layer/w", (300, 200), columns=4), 1).max() > np.sqrt(6 / 400)


def test_losses_equal_numpy_and_predictions_are_probabilities_or_numbers() -> None:
    from sangam.trainer_module.ranker import Ranker
    from tests.trainer_module.sample_job import declared

    ranker = Ranker(declared())
    logits = np.array([[2.0, 0.5], [-1.0, 3.0]], np.float32)
    batch = {"labels": tf.constant([[1.0, 1.0], [0.0, 1.0]])}
    probabilities = 1 / (1 + np.exp(-logits[:, 0]))
    expected = [-np.log(probabilities[0]) - np.log(1 - probabilities[1]), 0.25 + 4.0]
    np.testing.assert_allclose(ranker.loss_sums(tf.constant(logits), batch).numpy(), expected, rtol=1e-6)
    predictions = ranker.predictions(tf.constant(logits))
    np.testing.assert_allclose(predictions["like"].numpy()[:, 0], probabilities, rtol=1e-6)
    np.testing.assert_allclose(predictions["watch"].numpy()[:, 0], logits[:, 1])
