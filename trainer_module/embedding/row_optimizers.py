"""Optimizers of embedding rows: pure functions of a packed row `[embedding | slots]` and its summed gradient.

Only rows met in a step move ("lazy"): a row's slots stay as they are while its id is not seen.
"""

from typing import Protocol

import tensorflow as tf
from typing_extensions import assert_never

from schemas.optimizers import Adagrad, Adam, RowOptimizer, Sgd


class RowUpdate(Protocol):
    """How a row changes.

    Attributes:
        num_slots: vectors of the embedding's width kept beside it.
        slot_start: what a new row's slots hold.
    """

    num_slots: int
    slot_start: float

    def __call__(self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Returns the new rows.

        Args:
            rows: [n, dim * (1 + num_slots)] float32.
            gradients: [n, dim] float32, duplicates of a key already summed.
            step: global step, from 1; int64 scalar.
        """


class SgdUpdate:
    """w <- w - lr * g."""

    num_slots = 0
    slot_start = 0.0

    def __init__(self, declared: Sgd):
        self._declared = declared

    def __call__(self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        del step
        return rows - self._declared.learning_rate * gradients


class AdagradUpdate:
    """a <- a + g^2; w <- w - lr * g / sqrt(a).

    Reference: Duchi, Hazan, Singer: Adaptive subgradient methods, JMLR 2011, figure 1 (diagonal).
    """

    num_slots = 1

    def __init__(self, declared: Adagrad):
        self._declared = declared
        self.slot_start = declared.initial_accumulator

    def __call__(self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        del step
        embedding, accumulator = tf.split(rows, 2, axis=1)
        accumulator += tf.square(gradients)
        embedding -= self._declared.learning_rate * gradients * tf.math.rsqrt(accumulator)
        return tf.concat([embedding, accumulator], axis=1)


class AdamUpdate:
    """m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2; w <- w - lr * m^ / (sqrt(v^) + eps).

    The bias correction uses the global step.
    Reference: Kingma, Ba: Adam, ICLR 2015, algorithm 1, in the form of its section 2's last paragraph.
    """

    num_slots = 2
    slot_start = 0.0

    def __init__(self, declared: Adam):
        self._declared = declared

    def __call__(self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        embedding, m, v = tf.split(rows, 3, axis=1)
        embedding, m, v = adam(self._declared, embedding, m, v, gradients, step)
        return tf.concat([embedding, m, v], axis=1)


def adam(
    declared: Adam, w: tf.Tensor, m: tf.Tensor, v: tf.Tensor, g: tf.Tensor, step: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns (w, m, v) after one Adam step; all tensors of one shape, `step` from 1."""
    t = tf.cast(step, tf.float32)
    m = declared.beta1 * m + (1.0 - declared.beta1) * g
    v = declared.beta2 * v + (1.0 - declared.beta2) * tf.square(g)
    rate = declared.learning_rate * tf.sqrt(1.0 - declared.beta2**t) / (1.0 - declared.beta1**t)
    return w - rate * m / (tf.sqrt(v) + declared.epsilon), m, v


def row_update(declared: RowOptimizer) -> RowUpdate:
    """Returns the update of a declared optimizer."""
    match declared:
        case Sgd():
            return SgdUpdate(declared)
        case Adagrad():
            return AdagradUpdate(declared)
        case Adam():
            return AdamUpdate(declared)
        case _:
            assert_never(declared)
