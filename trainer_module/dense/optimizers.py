"""Optimizers of the flat vector of dense weights."""

import tensorflow as tf
from typing_extensions import assert_never

from schemas.optimizers import DenseAdam, DenseOptimizer, DenseSgd


class DenseState(tf.Module):
    """The flat weights and their optimizer's state."""

    def __init__(self, declared: DenseOptimizer, initial: tf.Tensor):
        super().__init__(name="dense")
        self._declared = declared
        self.flat = tf.Variable(initial, name="flat")
        self.moments = {
            name: tf.Variable(tf.zeros_like(self.flat), trainable=False, name=name)
            for name in (("m", "v") if isinstance(declared, DenseAdam) else ())
        }

    def apply(self, gradient: tf.Tensor, step: tf.Tensor) -> None:
        """Moves the weights: gradient [size], step from 1."""
        match self._declared:
            case DenseSgd(learning_rate=rate):
                self.flat.assign_sub(rate * gradient)
            case DenseAdam(learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon):
                # One pass over memory; the same formula as `embedding.row_optimizers.adam`.
                tf.raw_ops.ResourceApplyAdam(
                    var=self.flat.handle,
                    m=self.moments["m"].handle,
                    v=self.moments["v"].handle,
                    beta1_power=tf.pow(beta1, tf.cast(step, tf.float32)),
                    beta2_power=tf.pow(beta2, tf.cast(step, tf.float32)),
                    lr=rate,
                    beta1=beta1,
                    beta2=beta2,
                    epsilon=epsilon,
                    grad=gradient,
                )
            case _:
                assert_never(self._declared)
