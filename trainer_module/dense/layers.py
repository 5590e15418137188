"""Layers: each says which weights it needs, and is a pure function of them and its input."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer_module.dense.weights import Weight, Weights

# Shape suffixes: B batch, I inputs, O outputs, N networks side by side.


class Dense:
    """y = x W + b, or relu of it."""

    def __init__(self, name: str, inputs: int, outputs: int, *, relu: bool):
        self._name, self._relu = name, relu
        self.weights = (Weight(f"{name}/w", (inputs, outputs)), Weight(f"{name}/b", (outputs,), "zeros"))

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, outputs]."""
        y_BO = tf.nn.bias_add(tf.matmul(x_BI, weights[f"{self._name}/w"]), weights[f"{self._name}/b"])
        return tf.nn.relu(y_BO) if self._relu else y_BO


class Mlp:
    """Dense layers with relu, one after another."""

    def __init__(self, name: str, inputs: int, units: Sequence[int]):
        widths = [inputs, *units]
        self._layers = [
            Dense(f"{name}/{position}", before, after, relu=True)
            for position, (before, after) in enumerate(itertools.pairwise(widths))
        ]
        self.outputs = widths[-1]
        self.weights = tuple(weight for layer in self._layers for weight in layer.weights)

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, last width]."""
        for layer in self._layers:
            x_BI = layer(weights, x_BI)
        return x_BI


@tf.custom_gradient
def matmul_of_inputs(x_BI: tf.Tensor, w_IO: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
    """Returns x w. On the way back the inputs' gradient comes first, and the weights' after it.

    The executor would choose the other order on one thread. The gradient of the first layer's inputs is what the owners
    of the rows wait for: it travels while that of the weights, as large a product, is computed.
    """

    def gradient(g_BO: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        g_BI = tf.matmul(g_BO, w_IO, transpose_b=True)
        with tf.control_dependencies([g_BI]):
            return g_BI, tf.matmul(x_BI, g_BO, transpose_a=True)

    return tf.matmul(x_BI, w_IO), gradient


class ParallelMlps:
    """Several equal MLPs over one input. Their first layers are one product: much faster than one each."""

    def __init__(self, name: str, inputs: int, units: Sequence[int], networks: int):
        self._name, self._networks, self._first_units = name, networks, units[0]
        first = (
            Weight(f"{name}/first/w", (inputs, networks * units[0]), columns=networks),
            Weight(f"{name}/first/b", (networks * units[0],), "zeros"),
        )
        self._rest = [Mlp(f"{name}/{network}", units[0], units[1:]) for network in range(networks)]
        self.outputs = units[-1]
        self.weights = (*first, *(weight for network in self._rest for weight in network.weights))

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, networks, last width]."""
        first = matmul_of_inputs(x_BI, weights[f"{self._name}/first/w"])
        first = tf.nn.relu(tf.nn.bias_add(first, weights[f"{self._name}/first/b"]))
        inputs = tf.split(first, self._networks, axis=1)
        return tf.stack([rest(weights, x) for rest, x in zip(self._rest, inputs, strict=True)], axis=1)
