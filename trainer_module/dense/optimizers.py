"""Optimizers of the flat vector of dense weights."""

import tensorflow as tf
from typing_extensions import assert_never

from schemas.optimizers import Adam, DenseOptimizer, Sgd
from trainer_module.embedding.row_optimizers import adam


class DenseState(tf.Module):
    """The flat weights and their optimizer's state."""

    def __init__(self, declared: DenseOptimizer, initial: tf.Tensor):
        super().__init__(name="dense")
        self._declared = declared
        self.flat = tf.Variable(initial, name="flat")
        self.moments = {
            name: tf.Variable(tf.zeros_like(self.flat), trainable=False, name=name)
            for name in (("m", "v") if isinstance(declared, Adam) else ())
        }

    def apply(self, gradient: tf.Tensor, step: tf.Tensor) -> None:
        """Moves the weights: gradient [size], step from 1."""
        match self._declared:
            case Sgd(learning_rate=rate):
                self.flat.assign_sub(rate * gradient)
            case Adam(learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon):
                m, v = self.moments["m"], self.moments["v"]
                new_flat, new_m, new_v = adam(
                    self.flat, m, v, gradient, step, rate=rate, betas=(beta1, beta2), epsilon=epsilon
                )
                self.flat.assign(new_flat)
                m.assign(new_m)
                v.assign(new_v)
            case _:
                assert_never(self._declared)
