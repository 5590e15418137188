"""Optimizers of the flat vector of dense weights."""

from typing import assert_never

import numpy as np
import tensorflow as tf

from sangam.schemas.derived.weight import Weight
from sangam.schemas.spec.optimizers import AdamW, DenseAdagrad, DenseAdam, DenseOptimizer, DenseSgd
from sangam.trainer_module.dense.weights import FlatWeights


class DenseState(tf.Module):
    """The flat weights, or a part of them, and their optimizer's state.

    Attributes:
        flat: the weights: [size].
        moments: moments of the optimizer by name: [size] each.
    """

    def __init__(self, optimizer: DenseOptimizer, weights: FlatWeights, *, seed: int, part: slice = slice(None)):
        """Makes initial weights.

        Args:
            optimizer: updates them.
            weights: the layout of the vector.
            seed: seed of the initial values.
            part: range of the weights.
        """
        super().__init__(name="dense")
        self._optimizer = optimizer
        initial = weights.initial(seed)[part]
        self.flat = tf.Variable(initial, name="flat")
        self.moments = {
            name: tf.Variable(tf.fill([len(initial)], start), trainable=False, name=name)
            for name, start in moment_starts(optimizer).items()
        }
        does_decay = np.concatenate([np.full(each.size, decays(each)) for each in weights.weights])
        self._decays = tf.constant(does_decay[part])

    def apply(self, gradient: tf.Tensor, step: tf.Tensor, factor: tf.Tensor | float = 1.0) -> None:
        """Updates the weights.

        Args:
            gradient: [size].
            step: number of the step, from 1.
            factor: factor of the learning rate.
        """
        rate = self._optimizer.learning_rate * factor
        if isinstance(self._optimizer, DenseSgd | AdamW) and self._optimizer.weight_decay:
            # Of the weights before this step, as in the paper's algorithms 1 and 2.
            self.flat.assign_sub(tf.where(self._decays, rate * self._optimizer.weight_decay * self.flat, 0.0))
        match self._optimizer:
            case DenseSgd(momentum=0.0):
                self.flat.assign_sub(rate * gradient)
            case DenseSgd(momentum=momentum):
                velocity = self.moments["u"].assign(momentum * self.moments["u"] + gradient)
                self.flat.assign_sub(rate * velocity)
            case DenseAdagrad():
                accumulator = self.moments["a"].assign_add(tf.square(gradient))
                self.flat.assign_sub(rate * gradient * tf.math.rsqrt(accumulator))
            case DenseAdam() | AdamW():
                self._adam(self._optimizer, gradient, step, rate)
            case _:
                assert_never(self._optimizer)

    def _adam(self, optimizer: DenseAdam | AdamW, gradient: tf.Tensor, step: tf.Tensor, rate: tf.Tensor) -> None:
        # One pass over memory; the same formula as `embedding.row_optimizers.adam`.
        tf.raw_ops.ResourceApplyAdam(
            var=self.flat.handle,
            m=self.moments["m"].handle,
            v=self.moments["v"].handle,
            beta1_power=tf.pow(optimizer.beta1, tf.cast(step, tf.float32)),
            beta2_power=tf.pow(optimizer.beta2, tf.cast(step, tf.float32)),
            lr=rate,
            beta1=optimizer.beta1,
            beta2=optimizer.beta2,
            epsilon=optimizer.epsilon,
            grad=gradient,
        )


def moment_starts(optimizer: DenseOptimizer) -> dict[str, float]:
    """Returns the initial value of each moment. A name means the same for all optimizers."""
    match optimizer:
        case DenseSgd(momentum=0.0):
            return {}
        case DenseSgd():
            return {"u": 0.0}
        case DenseAdagrad(initial_accumulator=start):
            return {"a": start}
        case DenseAdam() | AdamW():
            return {"m": 0.0, "v": 0.0}
        case _:
            assert_never(optimizer)


def decays(weight: Weight) -> bool:
    """Says whether a weight decays: matrices, but no biases, factors, frequencies or balance of losses."""
    return len(weight.shape) >= 2 and weight.start == "glorot"


def clipped(gradient: tf.Tensor, longest: float | None) -> tf.Tensor:
    """Returns the gradient, scaled down to this length where it is longer.

    >>> clipped(tf.constant([3.0, 4.0]), 2.5).numpy().tolist()
    [1.5, 2.0]

    Reference: Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, ICML 2013,
    algorithm 1.
    """
    if longest is None:
        return gradient
    return gradient * (longest / tf.maximum(tf.norm(gradient), longest))
