"""Layers: pure functions of an input and the weights under their name, which `schemas.derived.weights` declares."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sangam.trainer_module.dense import fused
from sangam.trainer_module.dense.members import biased, has_members, product
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: B batch, I inputs, O outputs, N networks side by side, H width of a network's output, T tasks.


class Dense:
    """y = x W + b, or relu of it with dropout; for an ensemble see `members`.

    Attributes:
        matrices: name of W.

    >>> layer = Dense("head", relu=False)
    >>> weights = {"head/w": tf.constant([[1.0], [2.0]]), "head/b": tf.constant([0.5])}
    >>> layer(weights, tf.constant([[3.0, 4.0]])).numpy().tolist()
    [[11.5]]
    """

    def __init__(self, name: str, *, relu: bool, dropout: float = 0.0):
        self._name, self._relu, self._dropout = name, relu, dropout
        self.matrices = (f"{name}/w",)

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """Returns [batch, outputs]."""
        if self._relu and _is_fused(weights, self._name, x_BI, noise):
            return fused.layer(x_BI, [self.networks(weights)])[0][0]
        y_BO = _linear(weights, self._name, x_BI)
        return _relu(y_BO, self._dropout, noise, self._name) if self._relu else y_BO

    def networks(self, weights: Weights) -> fused.Networks:
        """Returns the layer as an argument of `fused.layer`; for one member."""
        return _networks(weights, self._name, 1, has_relu=self._relu)


def _linear(weights: Weights, name: str, x_BI: tf.Tensor, matmul: Callable[..., tf.Tensor] = tf.matmul) -> tf.Tensor:
    return biased(weights, f"{name}/b", product(weights, f"{name}/w", x_BI, matmul=matmul))


def _relu(x: tf.Tensor, dropout: float, noise: Noise | None, name: str) -> tf.Tensor:
    x = tf.nn.relu(x)
    return x if noise is None else noise.dropout(x, dropout, name)


def _is_fused(weights: Weights, name: str, x_BI: tf.Tensor, noise: Noise | None) -> bool:
    return noise is None and not has_members(weights, f"{name}/w") and fused.computes_layers(x_BI)


def _networks(weights: Weights, name: str, count: int, *, has_relu: bool) -> fused.Networks:
    return fused.Networks(weights[f"{name}/w"], weights[f"{name}/b"], count, has_relu)


class Mlp:
    """Dense layers with relu, one after another, each with dropout.

    Attributes:
        matrices: names of the layers' matrices.
    """

    def __init__(self, name: str, num_layers: int, *, dropout: float = 0.0):
        self._layers = [Dense(f"{name}/{position}", relu=True, dropout=dropout) for position in range(num_layers)]
        self.matrices = tuple(matrix for layer in self._layers for matrix in layer.matrices)

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """Returns [batch, last width]."""
        for layer in self._layers:
            x_BI = layer(weights, x_BI, noise)
        return x_BI


@tf.custom_gradient
def matmul_of_inputs(x_BI: tf.Tensor, w_IO: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
    """Returns x w. Backward, the inputs' gradient is computed before the weights'.

    On one thread the executor would choose the other order. The owners of the rows wait for the gradient of the first
    layer's inputs: it travels while the weights' gradient, as large a product, is computed.
    """

    def gradient(g_BO: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        g_BI = tf.matmul(g_BO, w_IO, transpose_b=True)
        with tf.control_dependencies([g_BI]):
            return g_BI, tf.matmul(x_BI, g_BO, transpose_a=True)

    return tf.matmul(x_BI, w_IO), gradient


class ParallelMlps:
    """Several MLPs of one shape over one input. Their first layers are one product: much faster than one each.

    Attributes:
        last: names of the matrices of the last layer of each network; with one layer, of the one that all share.
    """

    def __init__(self, name: str, num_layers: int, networks: int | Sequence[str], *, dropout: float = 0.0):
        """Makes the networks.

        Args:
            name: prefix of the weights' names.
            num_layers: layers of each network.
            networks: number or names of the networks.
            dropout: share of each layer's outputs.
        """
        names = [str(number) for number in range(networks)] if isinstance(networks, int) else list(networks)
        self._first, self._dropout = f"{name}/first", dropout
        self._rest = [Mlp(f"{name}/{network}", num_layers - 1, dropout=dropout) for network in names]
        self.last = {
            network: rest.matrices[-1] if rest.matrices else f"{self._first}/w"
            for network, rest in zip(names, self._rest, strict=True)
        }

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> list[tf.Tensor]:
        """Returns each network's output: [batch, last width]."""
        if _is_fused(weights, self._first, x_BI, noise):
            return self._of_first(weights, fused.layer(x_BI, [self._fused(weights)])[0], noise)
        first_BO = _linear(weights, self._first, x_BI, matmul_of_inputs)
        first = tf.split(_relu(first_BO, self._dropout, noise, self._first), len(self._rest), axis=1)
        return self._of_first(weights, first, noise)

    def with_gates(
        self, weights: Weights, x_BI: tf.Tensor, gates: Dense, noise: Noise | None = None
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns the result of `__call__`, and a linear layer of the same input, which may share its product."""
        if not _is_fused(weights, self._first, x_BI, noise):
            return self(weights, x_BI, noise), gates(weights, x_BI)
        first, (gates_BO,) = fused.layer(x_BI, [self._fused(weights), gates.networks(weights)])
        return self._of_first(weights, first, noise), gates_BO

    def _fused(self, weights: Weights) -> fused.Networks:
        return _networks(weights, self._first, len(self._rest), has_relu=True)

    def _of_first(self, weights: Weights, first: Sequence[tf.Tensor], noise: Noise | None) -> list[tf.Tensor]:
        return [rest(weights, x_BH, noise) for rest, x_BH in zip(self._rest, first, strict=True)]


def mixtures(gates_BTE: tf.Tensor, experts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns each task's mixture of experts: [batch, width], given the experts' outputs and softmaxed gates."""
    if fused.applies_to(gates_BTE):
        return fused.mixtures(gates_BTE, experts)
    return tf.unstack(tf.matmul(gates_BTE, tf.stack(experts, axis=1)), axis=1)


class Heads:
    """A linear layer with one output for each task."""

    def __init__(self, tasks: Sequence[str]):
        self._heads = [Dense(f"heads/{task}", relu=False) for task in tasks]

    def __call__(self, weights: Weights, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns logits [batch, tasks], given [batch, inputs] for each task."""
        return tf.concat([head(weights, x_BI) for head, x_BI in zip(self._heads, inputs, strict=True)], axis=1)


class Towers:
    """An MLP and a linear output for each task, each with its own input."""

    def __init__(self, tasks: Sequence[str], num_layers: int, *, dropout: float):
        self._towers = [Mlp(f"towers/{task}", num_layers, dropout=dropout) for task in tasks]
        self._heads = Heads(tasks)

    def __call__(self, weights: Weights, inputs: Sequence[tf.Tensor], noise: Noise | None = None) -> tf.Tensor:
        """Returns logits [batch, tasks], given [batch, inputs] for each task."""
        return self._heads(
            weights, [tower(weights, x_BI, noise) for tower, x_BI in zip(self._towers, inputs, strict=True)]
        )
