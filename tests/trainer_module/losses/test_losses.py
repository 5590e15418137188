"""Losses, masks, weights and predictions against NumPy on two or three examples."""

from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

Z = np.array([2.0, -1.0, 0.5], np.float32)
P = 1 / (1 + np.exp(-Z))
NAN = float("nan")


def _declared(tasks: dict[str, Any], **changes: Any) -> RankerSpec:
    from tests.trainer_module.sample_job import declared

    document = declared().model_dump(mode="json", exclude_unset=True)
    return RankerSpec.model_validate({**document, "tasks": tasks, **changes}, strict=False)


def _sums(ranker: RankerSpec, logits: Any, labels: Any, *rest: Any) -> np.ndarray:
    from sangam.trainer_module.losses import loss_sums

    tensors = [tf.constant(array, tf.float32) for array in (logits, labels, *rest)]
    found: np.ndarray = loss_sums(ranker, tuple(ranker.tasks), *tensors).numpy()
    return found


@pytest.mark.parametrize(
    ("task", "labels", "expected"),
    [
        ({"kind": "binary"}, [1, 0, 1], [-np.log(P[0]), -np.log(1 - P[1]), -np.log(P[2])]),
        (
            {"kind": "binary", "loss": {"kind": "cross_entropy", "label_smoothing": 0.2}},
            [1, 0, 1],
            [-0.9 * np.log(p) - 0.1 * np.log(1 - p) for p in (P[0], 1 - P[1], P[2])],
        ),
        (
            {"kind": "binary", "loss": {"kind": "focal", "gamma": 2.0}},
            [1, 0, 1],
            [-((1 - p) ** 2) * np.log(p) for p in (P[0], 1 - P[1], P[2])],
        ),
        (
            {"kind": "binary", "loss": {"kind": "focal", "gamma": 0.5, "alpha": 0.25}},
            [1, 0, 1],
            [-a * (1 - p) ** 0.5 * np.log(p) for a, p in ((0.25, P[0]), (0.75, 1 - P[1]), (0.25, P[2]))],
        ),
        (
            {"kind": "binary", "loss": {"kind": "focal", "gamma": 2.0, "alpha": 0.25, "label_smoothing": 0.2}},
            [1, 0, 1],
            [
                -y * 0.25 * (1 - p) ** 2 * np.log(p) - (1 - y) * 0.75 * p**2 * np.log(1 - p)
                for y, p in zip((0.9, 0.1, 0.9), P, strict=True)
            ],
        ),
        ({"kind": "regression"}, [1, 1, 1], (Z - 1) ** 2),
        ({"kind": "regression", "loss": {"kind": "huber", "delta": 0.5}}, [1, 1, 1], [0.375, 0.875, 0.125]),
        ({"kind": "regression", "loss": {"kind": "log"}}, [0, 3, 9], (Z - np.log([1, 4, 10])) ** 2),
        ({"kind": "regression", "center": 5.0, "scale": 2.0}, [1, 5, 9], (Z - [-2, 0, 2]) ** 2),
        (
            {"kind": "regression", "loss": {"kind": "huber", "delta": 1.0}, "center": 1.0, "scale": 2.0},
            [3, 3, 3],
            [0.375, 0.875, 0.125],
        ),
        (
            {"kind": "regression", "loss": {"kind": "log"}, "center": 1.0, "scale": 2.0},
            [0, 3, 9],
            (Z - (np.log([1, 4, 10]) - 1) / 2) ** 2,
        ),
        (
            {"kind": "watch_time", "unit": 60.0},
            [90, 0, 30],
            [-1.5 * np.log(P[0]), -np.log(1 - P[1]), -0.5 * np.log(P[2])],
        ),
    ],
    ids=[
        "cross_entropy",
        "smoothed",
        "focal",
        "focal with alpha",
        "smoothed focal",
        "squared",
        "huber",
        "log",
        "squared in its units",
        "huber in its units",
        "log in its units",
        "watch_time",
    ],
)
def test_each_loss_equals_numpy(task: dict[str, Any], labels: list[float], expected: Any) -> None:
    ranker = _declared({"y": task})
    np.testing.assert_allclose(_sums(ranker, Z[:, None], np.array(labels)[:, None])[0], np.sum(expected), rtol=1e-5)


@pytest.mark.parametrize("logit", [-200.0, -20.0, 20.0, 200.0])
@pytest.mark.parametrize(
    "task",
    [
        {"kind": "binary"},
        {"kind": "binary", "loss": {"kind": "focal", "gamma": 0.5}},
        {"kind": "watch_time"},
    ],
    ids=["cross_entropy", "focal", "watch_time"],
)
def test_losses_of_extreme_logits_are_finite_and_so_are_their_gradients(task: dict[str, Any], logit: float) -> None:
    from sangam.trainer_module.losses import loss_sums

    logits = tf.constant([[logit], [logit]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sums = loss_sums(_declared({"y": task}), ("y",), logits, tf.constant([[1.0], [0.0]]))
    assert np.isfinite(sums.numpy()).all()
    assert np.isfinite(tape.gradient(sums, logits).numpy()).all()


def test_a_masked_example_adds_nothing_and_poisons_nothing() -> None:
    from sangam.trainer_module.losses import loss_sums

    tasks = {
        "click": {"kind": "binary", "example_weight": "w"},
        "watch": {"kind": "regression", "loss": {"kind": "log"}},
    }
    logits = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    labels = tf.constant([[1.0, NAN], [NAN, 5.0]])
    weights = tf.constant([[2.0, NAN], [NAN, NAN]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        sums = loss_sums(_declared(tasks), ("click", "watch"), logits, labels, weights)
    gradient = tape.gradient(sums, logits).numpy()
    p = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(sums.numpy(), [-2 * np.log(p), (4 - np.log(6)) ** 2], rtol=1e-5)
    np.testing.assert_allclose(gradient, [[2 * (p - 1), 0.0], [0.0, 2 * (4 - np.log(6))]], rtol=1e-5)


def test_a_kept_negative_stands_for_those_left_out_in_other_tasks_alone() -> None:
    tasks = {"click": {"kind": "binary", "keep_negatives": 0.25}, "watch": {"kind": "regression"}}
    labels = [[0.0, 0.0], [1.0, 0.0], [NAN, 0.0]]
    sums = _sums(_declared(tasks), [[0.0, 3.0]] * 3, labels)
    np.testing.assert_allclose(sums, [2 * np.log(2), 9 * (4 + 1 + 1)], rtol=1e-5)


def test_the_loss_of_the_model_itself_is_the_last_tasks_of_its_chain() -> None:
    tasks = {"convert": {"kind": "binary"}, "click": {"kind": "binary"}}
    ranker = _declared(tasks, model={"kind": "aitm", "chain": ["click", "convert"]})
    zeros = np.zeros([2, 2])
    with_auxiliary = _sums(ranker, zeros, zeros, np.ones([2, 2]), [0.5, 0.25])
    np.testing.assert_allclose(with_auxiliary - _sums(ranker, zeros, zeros), [0.75, 0.0], atol=1e-6)


def test_predictions_are_probabilities_numbers_and_times() -> None:
    from sangam.trainer_module.losses import predictions

    tasks = {
        "plain": {"kind": "binary"},
        "sampled": {"kind": "binary", "keep_negatives": 0.1},
        "number": {"kind": "regression", "loss": {"kind": "huber"}},
        "logged": {"kind": "regression", "loss": {"kind": "log"}},
        "watch": {"kind": "watch_time", "unit": 60.0},
        "far": {"kind": "regression", "center": 1000.0, "scale": 50.0},
        "dear": {"kind": "regression", "loss": {"kind": "log"}, "center": 7.0, "scale": 0.5},
    }
    found = predictions(_declared(tasks), tuple(tasks), tf.constant(np.repeat(Z[:, None], 7, 1)), {})
    # He et al., section 6.3: q = p / (p + (1 - p) / w) with the share w of negatives kept.
    expected = [P, P / (P + (1 - P) / 0.1), Z, np.exp(Z) - 1, 60 * np.exp(Z), 1000 + 50 * Z, np.exp(7 + Z / 2) - 1]
    for task, values in zip(tasks, expected, strict=True):
        assert found[task].shape == (3, 1)
        np.testing.assert_allclose(found[task].numpy()[:, 0], values, rtol=1e-5)


def test_the_odds_of_weighted_logistic_regression_are_the_time_over_the_examples_without_any() -> None:
    from sangam.trainer_module.losses import loss_sums

    ranker, times = _declared({"watch": {"kind": "watch_time"}}), np.array([0, 0, 0, 0, 6.0, 2.0], np.float32)
    logit = tf.constant(np.log(8 / 4))
    with tf.GradientTape() as tape:
        tape.watch(logit)
        logits = tf.fill([6, 1], tf.cast(logit, tf.float32))
        loss = tf.reduce_sum(loss_sums(ranker, ("watch",), logits, tf.constant(times[:, None])))
    assert abs(float(tape.gradient(loss, logit))) < 1e-5
