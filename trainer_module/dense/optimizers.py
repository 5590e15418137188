"""Optimizers of the flat vector of dense weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.schemas.parts.calls import refused
from sangam.schemas.parts.weight import Weight
from sangam.schemas.spec.optimizers import AdamW, DenseAdagrad, DenseAdam, DenseOptimizer, DenseSgd
from sangam.trainer_module.dense.weights import FlatWeights
from sangam.trainer_module.outside import traced


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
                self._of_others(self._optimizer, gradient, step, rate)

    def _of_others(self, optimizer: DenseOptimizer, gradient: tf.Tensor, step: tf.Tensor, rate: tf.Tensor) -> None:
        own = moment_names(optimizer)
        moments = {name: self.moments[stored].read_value() for name, stored in own.items()}
        flat, moved = traced(optimizer, self.flat.read_value(), gradient, moments, step, rate)
        check_update(optimizer, flat, moved, self.flat.shape)
        self.flat.assign(flat)
        for name, stored in own.items():
            self.moments[stored].assign(moved[name])

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


def moment_names(optimizer: DenseOptimizer) -> dict[str, str]:
    """Returns the names under which moments are kept. Equal ones mean the same for all optimizers of the product."""
    prefix = "" if optimizer.is_ours else f"{optimizer.kind}_"
    return {name: f"{prefix}{name}" for name in optimizer.moments()}


def moment_starts(optimizer: DenseOptimizer) -> dict[str, float]:
    """Returns the initial value of each moment, by the name under which it is kept."""
    return {stored: optimizer.moments()[name] for name, stored in moment_names(optimizer).items()}


def check_update(optimizer: DenseOptimizer, flat: Any, moments: Mapping[str, Any], shape: tf.TensorShape) -> None:
    """Refuses new weights or moments of a wrong shape or name.

    Raises:
        UserError: with the place of the optimizer.
    """
    names = set(optimizer.moments())
    if set(moments) != names:
        raise refused(optimizer, f"returned the moments {sorted(moments)}", f"{sorted(names)}, those of `moments`")
    for name, value in {"the weights": flat, **moments}.items():
        if not isinstance(value, tf.Tensor) or not value.shape.is_compatible_with(shape):
            raise refused(optimizer, f"returned {name} of another shape", f"float32 of shape {shape.as_list()}")


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
