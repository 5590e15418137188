"""Balancing of losses against NumPy."""

from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

SUMS, COUNT = np.array([6.0, 4.0], np.float32), 2.0
"""Of a batch of two examples; the small ranker's tasks have the weights 1 and 0.5."""


def _declared(**balance: Any) -> RankerSpec:
    from tests.trainer_module.sample_job import declared

    return declared(loss_balance=balance)


def _total(ranker: RankerSpec, **weights: Any) -> float:
    from sangam.trainer_module.losses import Balance

    by_name = {name.replace("__", "/"): tf.constant(value, tf.float32) for name, value in weights.items()}
    return float(Balance(ranker).total(tf.constant(SUMS), tf.constant(COUNT), by_name))


def test_fixed_balance_is_the_declared_weights() -> None:
    assert _total(_declared(kind="fixed")) == 6.0 + 0.5 * 4.0


def test_uncertainty_weighs_by_variances_that_cost_their_logarithm_once_an_example() -> None:
    from sangam.schemas.derived.weights import balance_weights

    ranker = _declared(kind="uncertainty")
    assert [weight.name for weight in balance_weights(ranker)] == ["loss_balance/like", "loss_balance/watch"]
    total = _total(ranker, loss_balance__like=[0.4], loss_balance__watch=[-1.0])
    assert total == pytest.approx(np.exp(-0.4) * 6 + np.exp(1.0) * 0.5 * 4 + 2 * (0.4 - 1.0) / 2)
    assert balance_weights(_declared(kind="fixed")) == []


def _gradnorm_step(
    b: np.ndarray, first: np.ndarray, losses: np.ndarray, gradients: np.ndarray, alpha: float, rate: float
) -> np.ndarray:
    """Algorithm 1 of the paper, one step."""
    norms = np.array([1.0, 0.5]) * np.linalg.norm(gradients, axis=1)
    scaled, ratios = b * norms, losses / first
    targets = scaled.mean() * (ratios / ratios.mean()) ** alpha
    b = np.maximum(b - rate * np.sign(scaled - targets) * norms, 0)
    return 2 * b / b.sum()


def test_gradnorm_follows_numpy_and_its_memory_is_restored() -> None:
    from sangam.trainer_module.losses import Balance

    ranker = _declared(kind="gradnorm", alpha=1.5, learning_rate=0.1)
    balance, generator = Balance(ranker), np.random.default_rng(0)
    b, first = np.ones(2), np.array([0.7, 2.0])
    for step in range(4):
        losses, gradients = first * (0.9 - 0.1 * np.arange(2)) ** step, generator.normal(size=(2, 5))
        balance.update(tf.constant(losses, tf.float32), tf.constant(gradients, tf.float32))
        b = _gradnorm_step(b, first, losses, gradients, 1.5, 0.1)
    np.testing.assert_allclose(balance.weights_T.numpy(), b, rtol=1e-5)
    assert b.min() < 0.9
    total = float(balance.total(tf.constant(SUMS), tf.constant(COUNT), {}))
    assert total == pytest.approx(b[0] * 6 + b[1] * 0.5 * 4, rel=1e-5)
    again = Balance(ranker)
    again.restore(balance.snapshot())
    np.testing.assert_array_equal(again.weights_T.numpy(), balance.weights_T.numpy())
    np.testing.assert_array_equal(again.first_losses_T.numpy(), balance.first_losses_T.numpy())


def test_gradnorm_begins_when_a_task_has_a_loss_and_no_weight_falls_below_zero() -> None:
    from sangam.trainer_module.losses import Balance

    balance = Balance(_declared(kind="gradnorm", learning_rate=100.0))
    balance.update(tf.constant([0.0, 2.0]), tf.constant([[0.0], [1.0]]))
    np.testing.assert_array_equal(balance.first_losses_T.numpy(), [0.0, 2.0])
    np.testing.assert_array_equal(balance.weights_T.numpy(), [2.0, 0.0])
    balance.update(tf.constant([3.0, 1.0]), tf.constant([[0.5], [1.0]]))
    np.testing.assert_array_equal(balance.first_losses_T.numpy(), [3.0, 2.0])
    assert balance.weights_T.numpy().sum() == pytest.approx(2.0)
