"""Normalization of each vector (Ba, Kiros, Hinton: Layer normalization, 2016)."""

import tensorflow as tf

from sangam.trainer_module.dense.weights import Weights

EPSILON_OF_ROWS = 0.02
"""Of vectors that may be rows of ids, or sums of them: 24 times the variance with which rows begin. With the usual
one, a row that has learned nothing would be noise as large as what others have learned."""
_EPSILON = 1e-6


def normalized(x: tf.Tensor, epsilon: float = _EPSILON) -> tf.Tensor:
    """Returns (x - mean) / sqrt(variance + epsilon) over the last axis."""
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + epsilon)


class Norm:
    """`normalized` * (1 + gain) + bias."""

    def __init__(self, name: str, epsilon: float = _EPSILON):
        self._epsilon = epsilon
        self._gain, self._bias = f"{name}/gain", f"{name}/bias"

    def __call__(self, weights: Weights, x: tf.Tensor) -> tf.Tensor:
        """Returns a tensor of the shape of x."""
        return normalized(x, self._epsilon) * (1.0 + weights[self._gain]) + weights[self._bias]
