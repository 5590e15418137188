"""Row optimizers against NumPy, each table of a group with its own hyperparameters."""

from collections.abc import Callable

import numpy as np
import pytest

from sangam.schemas.spec.optimizers import Adagrad, Adam, Ftrl, RowOptimizer, RowwiseAdagrad, Sgd

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

Array = np.ndarray
Oracle = Callable[[RowOptimizer, Array, list[Array], Array, int], tuple[Array, list[Array]]]


def _sgd(d: Sgd, w: Array, slots: list[Array], g: Array, t: int) -> tuple[Array, list[Array]]:
    return w - d.learning_rate * g, []


def _adagrad(d: Adagrad, w: Array, slots: list[Array], g: Array, t: int) -> tuple[Array, list[Array]]:
    a = slots[0] + g**2
    return w - d.learning_rate * g / np.sqrt(a), [a]


def _rowwise(d: RowwiseAdagrad, w: Array, slots: list[Array], g: Array, t: int) -> tuple[Array, list[Array]]:
    a = slots[0] + (g**2).mean(axis=1, keepdims=True)
    return w - d.learning_rate * g / np.sqrt(a), [a]


def _adam(d: Adam, w: Array, slots: list[Array], g: Array, t: int) -> tuple[Array, list[Array]]:
    m, v = d.beta1 * slots[0] + (1 - d.beta1) * g, d.beta2 * slots[1] + (1 - d.beta2) * g**2
    rate = d.learning_rate * np.sqrt(1 - d.beta2**t) / (1 - d.beta1**t)
    return w - rate * m / (np.sqrt(v) + d.epsilon), [m, v]


def _ftrl(d: Ftrl, w: Array, slots: list[Array], g: Array, t: int) -> tuple[Array, list[Array]]:
    """Keeps the curvature of the last update beside z and n: rates change from step to step."""
    z, n, *last = slots
    before = last[0] if last else (d.beta + np.sqrt(n)) / d.learning_rate + d.l2
    n = n + g**2
    curvature = (d.beta + np.sqrt(n)) / d.learning_rate + d.l2
    z = z + g - (curvature - before) * w
    w = -(z - np.sign(z) * d.l1) / curvature
    return np.where(np.abs(z) <= d.l1, 0.0, w), [z, n, curvature]


CASES: list[tuple[RowOptimizer, RowOptimizer, Oracle]] = [
    (Sgd(kind="sgd", learning_rate=0.1), Sgd(kind="sgd", learning_rate=0.3), _sgd),
    (
        Adagrad(kind="adagrad", learning_rate=0.1, initial_accumulator=0.2),
        Adagrad(kind="adagrad", learning_rate=0.05, initial_accumulator=0.7),
        _adagrad,
    ),
    (
        RowwiseAdagrad(kind="rowwise_adagrad", learning_rate=0.1, initial_accumulator=0.2),
        RowwiseAdagrad(kind="rowwise_adagrad", learning_rate=0.2),
        _rowwise,
    ),
    (
        Adam(kind="adam", learning_rate=0.01),
        Adam(kind="adam", learning_rate=0.02, beta1=0.8, beta2=0.99, epsilon=1e-3),
        _adam,
    ),
    (
        Ftrl(kind="ftrl", learning_rate=0.1),
        Ftrl(kind="ftrl", learning_rate=0.2, beta=0.5, l1=0.05, l2=0.3),
        _ftrl,
    ),
]


@pytest.mark.parametrize("is_mixed", [False, True], ids=["one table", "two tables"])
@pytest.mark.parametrize(("first", "second", "oracle"), CASES, ids=[case[0].kind for case in CASES])
def test_rows_follow_numpy_for_six_steps_with_decay_and_a_schedule(
    first: RowOptimizer, second: RowOptimizer, oracle: Oracle, is_mixed: bool
) -> None:
    from sangam.schemas.spec.tables import Table
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys

    # Of FTRL the oracle keeps no z of a decayed row: `sangam validate` refuses it.
    decay = 0.0 if isinstance(first, Ftrl) else 0.5
    tables = {"users": Table(dim=4, optimizer=first, l2=0.1, weight_decay=decay)}
    if is_mixed:
        tables["posts"] = Table(dim=4, optimizer=second)
    store = RowStore(group(**tables), seed=5)
    asked = [keys(1, 2, 3, tag=tag) for tag in range(1, len(tables) + 1)]
    step, generator = Steps(store), np.random.default_rng(0)
    made = [store.find_or_make(tf.constant(part), None, tf.constant(1, tf.int64)) for part in asked]
    starts = [store.read(numbers).numpy().astype(np.float64) for numbers in made]
    w = [start[:, :4] for start in starts]
    slots = [
        np.split(start[:, 4:], -(start.shape[1] // -4) - 1, axis=1) if start.shape[1] > 4 else [] for start in starts
    ]
    for factor in (1.0, 1.0, 0.5, 0.25, 2.0, 1.0):
        gradients = [generator.normal(size=(3, 4)) for _ in asked]
        step.factor.assign(factor)
        step(np.concatenate(asked), gradients=np.concatenate(gradients))
        for place, table in enumerate(tables.values()):
            scaled = table.optimizer.model_copy(update={"learning_rate": factor * table.optimizer.learning_rate})
            gradient = gradients[place] + table.l2 * w[place]
            decayed = scaled.learning_rate * table.weight_decay * w[place]
            w[place], slots[place] = oracle(scaled, w[place], slots[place], gradient, step.step)
            w[place] = w[place] - decayed
    for place, part in enumerate(asked):
        rows = store.read(store.find(tf.constant(part))).numpy()
        expected = np.concatenate([w[place], *slots[place]], axis=1)[:, : rows.shape[1]]
        np.testing.assert_allclose(rows, expected, atol=2e-6, rtol=2e-6)


def test_ftrl_keeps_the_random_start_until_gradients_move_it_and_l1_gives_zeros() -> None:
    from sangam.schemas.spec.tables import Table
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys

    declared = Ftrl(kind="ftrl", learning_rate=0.1, l1=0.01, l2=0.1)
    step = Steps(RowStore(group(users=Table(dim=4, optimizer=declared)), seed=5))
    start = step(keys(1), gradients=0.0)
    np.testing.assert_allclose(step(keys(1), gradients=0.0), start, atol=1e-7)
    assert np.all(start != 0.0)
    step.factor.assign(0.0)
    for _ in range(3):
        np.testing.assert_allclose(step(keys(1), gradients=1.0), start, atol=1e-7)
    step.factor.assign(1.0)
    step(keys(1), gradients=1.0)
    assert np.all(np.abs(step(keys(1), gradients=0.0)) < 0.2)
    strong = Ftrl(kind="ftrl", learning_rate=0.1, l1=10.0)
    step = Steps(RowStore(group(users=Table(dim=4, optimizer=strong)), seed=5))
    step(keys(1), gradients=np.sign(start) * 5.0)
    # |z| has fallen below l1 in every coordinate.
    assert np.all(step(keys(1), gradients=0.0) == 0.0)
