"""Layers: pure functions of an input and the weights under their name, which `schemas.derived.weights` declares.

`choice` says of each whether our operation or TensorFlow computes it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from sangam.trainer_module.dense import choice, fused, native_layer
from sangam.trainer_module.dense.members import biased, matrix_of_members, members_of, product
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input, Split
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: B batch, I inputs, O outputs, N networks side by side, H width of a network's output, T tasks.


@dataclass(frozen=True)
class _Layer:
    """x W + b, or relu of it with dropout, of networks whose matrices lie side by side.

    Attributes:
        name: name of the dropout's noise.
        matrix: name of W.
        bias: name of b; empty without.
        networks: number of networks.
        has_relu: whether relu and dropout follow.
        dropout: share of the outputs.
    """

    name: str
    matrix: str
    bias: str
    networks: int = 1
    has_relu: bool = False
    dropout: float = 0.0

    @classmethod
    def named(cls, name: str, **more: Any) -> "_Layer":
        """Returns the layer whose weights lie under its name."""
        return cls(name, f"{name}/w", f"{name}/b", **more)

    def by_tensorflow(
        self, weights: Weights, x_BI: Input, noise: Noise | None, matmul: Callable[..., tf.Tensor] = tf.matmul
    ) -> list[tf.Tensor]:
        """Returns each network's output: [batch, H]."""
        if isinstance(x_BI, Split):
            y_BO = x_BI.product(weights, self.matrix, self.bias, matmul=matmul)
        else:
            y_BO = product(weights, self.matrix, x_BI, matmul=matmul)
            y_BO = biased(weights, self.bias, y_BO) if self.bias else y_BO
        if self.has_relu:
            y_BO = tf.nn.relu(y_BO)
            y_BO = y_BO if noise is None else noise.dropout(y_BO, self.dropout, self.name)
        return [y_BO] if self.networks == 1 else tf.split(y_BO, self.networks, axis=1)

    def native(self, weights: Weights, noise: Noise | None) -> native_layer.Networks:
        """Returns the layer as an argument of our operation."""
        w, members = matrix_of_members(weights, self.matrix), members_of(weights, self.matrix)
        columns = int(w.shape[1])
        b = tf.reshape(weights[self.bias], [-1]) if self.bias else tf.zeros([members * columns], w.dtype)
        drawn = None
        if noise is not None and self.has_relu and self.dropout:
            drawn = noise.drawn(self.dropout, self.name, columns)
        return native_layer.Networks(w, b, self.networks, self.has_relu, drawn)


def _outputs(
    weights: Weights,
    layers: Sequence[_Layer],
    x_BI: Input,
    noise: Noise | None = None,
    matmul: Callable[..., tf.Tensor] = tf.matmul,
) -> list[list[tf.Tensor]]:
    """Returns the outputs of each layer's networks, given their common input: [batch, H] each."""
    if isinstance(x_BI, Split) or not choice.is_native({layer.matrix: weights[layer.matrix] for layer in layers}, x_BI):
        return [layer.by_tensorflow(weights, x_BI, noise, matmul) for layer in layers]
    members = members_of(weights, layers[0].matrix)
    return native_layer.layer(x_BI, [layer.native(weights, noise) for layer in layers], members)


def linear(weights: Weights, matrix: str, x_BI: Input, bias: str = "") -> tf.Tensor:
    """Returns x W + b: [batch, outputs].

    Args:
        weights: weights by name.
        matrix: name of W.
        x_BI: input.
        bias: name of b; empty without.
    """
    return _outputs(weights, [_Layer(matrix, matrix, bias)], x_BI)[0][0]


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
        self.layer = _Layer.named(name, has_relu=relu, dropout=dropout)
        self.matrices = (self.layer.matrix,)

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """Returns [batch, outputs]."""
        return _outputs(weights, [self.layer], x_BI, noise)[0][0]


class Mlp:
    """Dense layers with relu, one after another, each with dropout.

    Attributes:
        matrices: names of the layers' matrices.
    """

    def __init__(self, name: str, num_layers: int, *, dropout: float = 0.0):
        self._layers = [Dense(f"{name}/{position}", relu=True, dropout=dropout) for position in range(num_layers)]
        self.matrices = tuple(matrix for layer in self._layers for matrix in layer.matrices)

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
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
        self._first = _Layer.named(f"{name}/first", networks=len(names), has_relu=True, dropout=dropout)
        self._rest = [Mlp(f"{name}/{network}", num_layers - 1, dropout=dropout) for network in names]
        self.last = {
            network: rest.matrices[-1] if rest.matrices else self._first.matrix
            for network, rest in zip(names, self._rest, strict=True)
        }

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> list[tf.Tensor]:
        """Returns each network's output: [batch, last width]."""
        [first] = _outputs(weights, [self._first], x_BI, noise, matmul_of_inputs)
        return self._of_first(weights, first, noise)

    def with_gates(
        self, weights: Weights, x_BI: Input, gates: Dense, noise: Noise | None = None
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns the result of `__call__`, and a linear layer of the same input, which may share its product."""
        first, [gates_BO] = _outputs(weights, [self._first, gates.layer], x_BI, noise, matmul_of_inputs)
        return self._of_first(weights, first, noise), gates_BO

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
