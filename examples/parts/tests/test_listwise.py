"""The listwise losses against sums over requests in NumPy."""

import numpy as np
import pytest
from sangam_example_parts import Jrc, Rcr

from sangam.parts import BinaryLoss, Examples, tf
from sangam.testing import check_part

pytestmark = pytest.mark.slow
PARTS = (Rcr(kind="rcr", of="user", share=0.3), Jrc(kind="jrc", of="user", share=0.3))
# Requests of four candidates, of one that was clicked, and of one without labels; ids are any numbers.
IDS = np.array([7, -2, 7, 7, 99, 7, -2])
LABELS = np.array([1, 1, 0, 1, 0, 0, 0], np.float32)
IS_LABELED = np.array([1, 1, 1, 1, 0, 1, 0], bool)
LOGITS = np.array([0.5, -1.0, 2.0, 0.1, 3.0, -0.7, 4.0], np.float32)


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def expected(part: BinaryLoss) -> list[float]:
    losses = []
    for own, (label, logit) in enumerate(zip(LABELS, LOGITS, strict=True)):
        among = IS_LABELED & (IDS[own] == IDS)
        pointwise = -np.log(sigmoid(logit if label else -logit))
        if part.kind == "rcr":
            chances = sigmoid(LOGITS[among])
            listwise = -np.log(sigmoid(logit) / chances.sum()) if label else 0.0
        else:
            sign = 0.5 if label else -0.5
            listwise = -np.log(np.exp(sign * logit) / np.exp(sign * LOGITS[among]).sum()) if among.any() else 0.0
        losses.append(0.7 * pointwise + 0.3 * listwise)
    return losses


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
def test_the_equations(part: BinaryLoss) -> None:
    examples = Examples(tf.constant(LABELS), tf.constant(IS_LABELED), {"user": tf.constant(IDS)})
    found = part.losses(tf.constant(LOGITS), examples).numpy()
    np.testing.assert_allclose(found[IS_LABELED], np.array(expected(part))[IS_LABELED], rtol=1e-5)
    assert np.isfinite(found).all()


def test_rcr_is_least_where_each_score_is_the_chance_of_a_click() -> None:
    """What its name says; the gradient of a softmax of the logits would be 0.15 * share at the first candidate."""
    # A request of two candidates, again and again: clicked in 3 of 4 and, independently, in 1 of 4.
    labels = np.array([[first < 3, second < 1] for first in range(4) for second in range(4)], np.float32)
    logits = tf.constant(np.tile(np.log([3, 1 / 3]), 16), tf.float32)
    requests = tf.repeat(tf.range(16, dtype=tf.int64), 2)
    examples = Examples(tf.constant(labels.ravel()), tf.ones(32, tf.bool), {"user": requests})
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total = tf.reduce_mean(PARTS[0].losses(logits, examples))
    gradient = tape.gradient(total, logits).numpy().reshape(16, 2).sum(0)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
def test_they_hold_what_every_part_promises(part: BinaryLoss) -> None:
    check_part(part)
