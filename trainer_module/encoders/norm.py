"""Normalization of each vector (Ba, Kiros, Hinton: Layer normalization, 2016)."""

import tensorflow as tf

from sangam.trainer_module.dense.weights import Weights

_EPSILON = 0.02
"""24 times the variance with which rows of ids begin. With the usual 1e-6, a row that has learned nothing would be
noise as large as what others have learned."""


def normalized(x: tf.Tensor) -> tf.Tensor:
    """Returns (x - mean) / sqrt(variance + epsilon) over the last axis."""
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + _EPSILON)


class Norm:
    """`normalized` * (1 + gain) + bias."""

    def __init__(self, name: str):
        self._gain, self._bias = f"{name}/gain", f"{name}/bias"

    def __call__(self, weights: Weights, x: tf.Tensor) -> tf.Tensor:
        """Returns a tensor of the shape of x."""
        return normalized(x) * (1.0 + weights[self._gain]) + weights[self._bias]
