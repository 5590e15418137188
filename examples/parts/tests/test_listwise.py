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
            listwise = -np.log(sigmoid(logit) / chances.sum()) / LABELS[among].sum() if label else 0.0
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
    """What its name says: the listwise term moves no optimum of cross-entropy, as that of plain softmax does."""
    labels = np.array([1, 0, 0, 1] * 4, np.float32)
    requests, z = tf.repeat(tf.range(8, dtype=tf.int64), 2), tf.constant(np.zeros(16), tf.float32)
    examples = Examples(tf.constant(labels), tf.ones(16, tf.bool), {"user": requests})
    with tf.GradientTape() as tape:
        tape.watch(z)
        total = tf.reduce_sum(PARTS[0].losses(z, examples))
    # The same candidate, clicked in half of its requests: its gradients add up to zero at p = 1/2.
    assert np.abs(tape.gradient(total, z).numpy().sum()) < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
def test_they_hold_what_every_part_promises(part: BinaryLoss) -> None:
    check_part(part)
