"""Optimizers of the dense weights against Keras and NumPy, schedules and clipping by small numbers."""

from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec.optimizers import AdamW, DenseAdagrad, DenseAdam, DenseOptimizer, DenseSgd
from sangam.schemas.spec.training import Constant, Cosine, Schedule, Stepwise

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

START = np.linspace(-1, 1, 12, dtype=np.float32)


def _state(declared: DenseOptimizer):  # type: ignore[no-untyped-def]
    """Returns a matrix of six weights, a bias of four and two weights of a balance, all at `START`."""
    from sangam.schemas.parts.weight import Weight
    from sangam.trainer_module.dense.optimizers import DenseState
    from sangam.trainer_module.dense.weights import FlatWeights

    weights = [Weight("w", (2, 3)), Weight("b", (2, 2), "zeros"), Weight("loss_balance", (2,), "zeros")]
    state = DenseState(declared, FlatWeights(weights), seed=1)
    state.flat.assign(START)
    return state


def _gradients(num_steps: int) -> list[np.ndarray]:
    return [np.sin(START * 10 + step).astype(np.float32) for step in range(num_steps)]


def _after(declared: DenseOptimizer, factors: list[float]) -> Any:
    state = _state(declared)
    for step, (gradient, factor) in enumerate(zip(_gradients(len(factors)), factors, strict=True), start=1):
        state.apply(tf.constant(gradient), tf.constant(step, tf.int64), tf.constant(factor))
    assert len(state.moments) == len(declared.moments())
    return state.flat.numpy()


@pytest.mark.parametrize(
    ("declared", "keras"),
    [
        (DenseSgd(kind="sgd", learning_rate=0.5), lambda legacy: legacy.SGD(0.5)),
        (DenseAdam(kind="adam", learning_rate=0.01), lambda legacy: legacy.Adam(0.01, epsilon=1e-7)),
        (
            DenseAdagrad(kind="adagrad", learning_rate=0.1, initial_accumulator=0.2),
            lambda legacy: legacy.Adagrad(0.1, initial_accumulator_value=0.2, epsilon=0.0),
        ),
    ],
    ids=["sgd", "adam", "adagrad"],
)
def test_dense_optimizers_equal_keras(declared: DenseOptimizer, keras: Any) -> None:
    optimizer, variable = keras(tf.keras.optimizers.legacy), tf.Variable(START)
    for gradient in _gradients(7):
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
    np.testing.assert_allclose(_after(declared, [1.0] * 7), variable.numpy(), atol=1e-6)


def test_momentum_keeps_its_velocity_when_the_rate_changes() -> None:
    w, u = START.astype(np.float64), np.zeros(12)
    for gradient, factor in zip(_gradients(4), (1.0, 0.5, 0.0, 2.0), strict=True):
        u = 0.9 * u + gradient
        w = w - 0.1 * factor * u
    declared = DenseSgd(kind="sgd", learning_rate=0.1, momentum=0.9)
    np.testing.assert_allclose(_after(declared, [1.0, 0.5, 0.0, 2.0]), w, atol=1e-6)


def test_sgd_decays_matrices_alone() -> None:
    w, u, is_matrix = START.astype(np.float64), np.zeros(12), np.arange(12) < 6
    for gradient, factor in zip(_gradients(4), (1.0, 0.5, 0.5, 1.0), strict=True):
        u = 0.9 * u + gradient
        w = w - 0.1 * factor * (u + 0.2 * is_matrix * w)
    declared = DenseSgd(kind="sgd", learning_rate=0.1, momentum=0.9, weight_decay=0.2)
    np.testing.assert_allclose(_after(declared, [1.0, 0.5, 0.5, 1.0]), w, atol=1e-6)


def test_adamw_is_adam_whose_matrices_alone_decay() -> None:
    w, m, v = START.astype(np.float64), np.zeros(12), np.zeros(12)
    is_matrix = np.arange(12) < 6
    for step, (g, factor) in enumerate(zip(_gradients(4), (1.0, 0.5, 0.5, 1.0), strict=True), start=1):
        rate = 0.01 * factor
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        corrected = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        w = w - rate * 0.1 * is_matrix * w - corrected * m / (np.sqrt(v) + 1e-7)
    declared = AdamW(kind="adamw", learning_rate=0.01, weight_decay=0.1)
    np.testing.assert_allclose(_after(declared, [1.0, 0.5, 0.5, 1.0]), w, atol=1e-6)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (Constant(kind="constant"), [1, 1, 1, 1, 1, 1, 1]),
        (Constant(kind="constant", warmup_steps=4), [0.25, 0.5, 0.75, 1, 1, 1, 1]),
        (Cosine(kind="cosine", decay_steps=4), [1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2, 0, 0, 0]),
        (Cosine(kind="cosine", decay_steps=2, floor=0.2, warmup_steps=2), [0.5, 1, 1, 0.6, 0.2, 0.2, 0.2]),
        (Stepwise(kind="step", every_steps=2, factor=0.5), [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]),
        (Stepwise(kind="step", every_steps=2, factor=0.5, warmup_steps=2), [0.5, 1, 1, 1, 0.5, 0.5, 0.25]),
    ],
    ids=["constant", "warm-up", "cosine", "cosine after a warm-up", "step", "step after a warm-up"],
)
def test_schedules_are_these_factors_of_the_first_seven_steps(declared: Schedule, expected: list[float]) -> None:
    from sangam.trainer_module.loop.learning_rate import factor

    got = [float(factor(declared, tf.constant(step, tf.int64))) for step in range(1, 8)]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_a_longer_gradient_is_shortened_and_a_shorter_one_left_alone() -> None:
    from sangam.trainer_module.dense.optimizers import clipped

    np.testing.assert_allclose(clipped(tf.constant([3.0, 4.0]), 1.0).numpy(), [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(clipped(tf.constant([3.0, 4.0]), 6.0).numpy(), [3.0, 4.0])
    np.testing.assert_array_equal(clipped(tf.zeros([2]), 1.0).numpy(), [0.0, 0.0])
    np.testing.assert_array_equal(clipped(tf.constant([3.0, 4.0]), None).numpy(), [3.0, 4.0])
