"""Layers: each declares its weights, and is a pure function of them and its input."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer_module.dense import fused
from trainer_module.dense.members import Bias, Factors
from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Axis, Weight, Weights, blocks_of, width_of

# Shape suffixes: B batch, I inputs, O outputs, N networks side by side, H width of a network's output, T tasks.


class Linear:
    """y = x W + b; for an ensemble see `members`."""

    def __init__(
        self,
        name: str,
        inputs: Axis,
        outputs: Axis,
        members: int,
        *,
        columns: int = 1,
        matmul: Callable[..., tf.Tensor] = tf.matmul,
    ):
        self.matrix, self.bias, self._matmul = f"{name}/w", f"{name}/b", matmul
        shape = (width_of(inputs), width_of(outputs))
        self._factors = Factors(self.matrix, inputs, outputs, members)
        self._bias = Bias(self.bias, outputs, members)
        self.weights = (
            Weight(self.matrix, shape, columns=columns, blocks=blocks_of(inputs, outputs)),
            *self._factors.weights,
            *self._bias.weights,
        )

    def networks(self, weights: Weights, count: int, *, has_relu: bool) -> fused.Networks:
        """Returns what `fused.layer` takes for it; for one member."""
        return fused.Networks(weights[self.matrix], weights[self.bias], count, has_relu)

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, outputs]."""
        y_BO = self._factors.product(weights, x_BI, weights[self.matrix], matmul=self._matmul)
        return self._bias(weights, y_BO)


class Dense:
    """y = x W + b, or relu of it with dropout.

    >>> layer = Dense("head", 2, 1, relu=False)
    >>> [(weight.name, weight.shape) for weight in layer.weights]
    [('head/w', (2, 1)), ('head/b', (1,))]
    >>> weights = {"head/w": tf.constant([[1.0], [2.0]]), "head/b": tf.constant([0.5])}
    >>> layer(weights, tf.constant([[3.0, 4.0]])).numpy().tolist()
    [[11.5]]
    """

    def __init__(self, name: str, inputs: Axis, outputs: Axis, *, relu: bool, dropout: float = 0.0, members: int = 1):
        self._name, self._relu, self._dropout, self._members = name, relu, dropout, members
        self._linear = Linear(name, inputs, outputs, members)
        self.matrix, self.weights = self._linear.matrix, self._linear.weights

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """Returns [batch, outputs]."""
        if self._relu and noise is None and self._members == 1 and fused.computes_layers(x_BI):
            return fused.layer(x_BI, [self.networks(weights)])[0][0]
        y_BO = self._linear(weights, x_BI)
        return _relu(y_BO, self._dropout, noise, self._name) if self._relu else y_BO

    def networks(self, weights: Weights) -> fused.Networks:
        """Returns what `fused.layer` takes for it; for one member."""
        return self._linear.networks(weights, 1, has_relu=self._relu)


def _relu(x: tf.Tensor, dropout: float, noise: Noise | None, name: str) -> tf.Tensor:
    x = tf.nn.relu(x)
    return x if noise is None else noise.dropout(x, dropout, name)


class Mlp:
    """Dense layers with relu, one after another, each with dropout."""

    def __init__(self, name: str, inputs: Axis, units: Sequence[int], *, dropout: float = 0.0, members: int = 1):
        widths: list[Axis] = [inputs, *units]
        self._layers = [
            Dense(f"{name}/{position}", before, after, relu=True, dropout=dropout, members=members)
            for position, (before, after) in enumerate(itertools.pairwise(widths))
        ]
        self.outputs = width_of(widths[-1])
        self.weights = tuple(weight for layer in self._layers for weight in layer.weights)
        self.matrices = tuple(layer.matrix for layer in self._layers)

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
    """Several MLPs of one shape over one input. Their first layers are one product: much faster than one each."""

    def __init__(
        self,
        name: str,
        inputs: Axis,
        units: Sequence[int],
        networks: int | Sequence[str],
        *,
        dropout: float = 0.0,
        members: int = 1,
    ):
        """Makes the networks.

        Args:
            name: prefix of the weights' names.
            inputs: of each network.
            units: widths of the layers.
            networks: how many; or their names, by which a warm start matches them.
            dropout: share of each layer's outputs.
            members: of an ensemble.
        """
        names = [str(number) for number in range(networks)] if isinstance(networks, int) else list(networks)
        self._name, self._dropout, self._num_networks, self._members = name, dropout, len(names), members
        width = len(names) * units[0]
        columns: Axis = width if isinstance(networks, int) else tuple((network, units[0]) for network in names)
        self._first = Linear(f"{name}/first", inputs, columns, members, columns=len(names), matmul=matmul_of_inputs)
        self._rest = [
            Mlp(f"{name}/{network}", units[0], units[1:], dropout=dropout, members=members) for network in names
        ]
        self.outputs = units[-1]
        self.weights = (*self._first.weights, *(weight for network in self._rest for weight in network.weights))
        last = [rest.matrices[-1] if rest.matrices else self._first.matrix for rest in self._rest]
        self.last = dict(zip(names, last, strict=True))
        """Names of the matrices of the last layer of each network; with one layer, of the one that all share."""

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> list[tf.Tensor]:
        """Returns each network's output: [batch, last width]."""
        if self._is_fused(x_BI, noise):
            return self._of_first(weights, fused.layer(x_BI, [self._fused(weights)])[0], noise)
        first = _relu(self._first(weights, x_BI), self._dropout, noise, f"{self._name}/first")
        return self._of_first(weights, tf.split(first, self._num_networks, axis=1), noise)

    def with_gates(
        self, weights: Weights, x_BI: tf.Tensor, gates: Dense, noise: Noise | None = None
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns what `__call__` returns, and a linear layer of the same input, which may share its product."""
        if not self._is_fused(x_BI, noise):
            return self(weights, x_BI, noise), gates(weights, x_BI)
        first, (gates_BO,) = fused.layer(x_BI, [self._fused(weights), gates.networks(weights)])
        return self._of_first(weights, first, noise), gates_BO

    def _is_fused(self, x_BI: tf.Tensor, noise: Noise | None) -> bool:
        return noise is None and self._members == 1 and fused.computes_layers(x_BI)

    def _fused(self, weights: Weights) -> fused.Networks:
        return self._first.networks(weights, self._num_networks, has_relu=True)

    def _of_first(self, weights: Weights, first: Sequence[tf.Tensor], noise: Noise | None) -> list[tf.Tensor]:
        return [rest(weights, x_BH, noise) for rest, x_BH in zip(self._rest, first, strict=True)]


def mixtures(gates_BTE: tf.Tensor, experts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns each task's mixture of experts: [batch, width], given the experts' outputs and softmaxed gates."""
    if fused.applies_to(gates_BTE):
        return fused.mixtures(gates_BTE, experts)
    return tf.unstack(tf.matmul(gates_BTE, tf.stack(experts, axis=1)), axis=1)


class Heads:
    """A linear layer with one output for each task."""

    def __init__(self, tasks: Sequence[str], inputs: int, *, members: int = 1):
        self._heads = [Dense(f"heads/{task}", inputs, 1, relu=False, members=members) for task in tasks]
        self.weights = tuple(weight for head in self._heads for weight in head.weights)

    def __call__(self, weights: Weights, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns logits [batch, tasks], given [batch, inputs] for each task."""
        return tf.concat([head(weights, x_BI) for head, x_BI in zip(self._heads, inputs, strict=True)], axis=1)


class Towers:
    """An MLP and a linear output for each task, each with its own input."""

    def __init__(self, tasks: Sequence[str], inputs: int, units: Sequence[int], *, dropout: float, members: int = 1):
        self._towers = [Mlp(f"towers/{task}", inputs, units, dropout=dropout, members=members) for task in tasks]
        self._heads = Heads(tasks, units[-1], members=members)
        self.weights = (*(weight for tower in self._towers for weight in tower.weights), *self._heads.weights)

    def __call__(self, weights: Weights, inputs: Sequence[tf.Tensor], noise: Noise | None = None) -> tf.Tensor:
        """Returns logits [batch, tasks], given [batch, inputs] for each task."""
        return self._heads(
            weights, [tower(weights, x_BI, noise) for tower, x_BI in zip(self._towers, inputs, strict=True)]
        )
