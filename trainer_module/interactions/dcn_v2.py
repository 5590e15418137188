"""Deep & cross network, version 2.

Reference: Wang et al.: DCN V2: Improved deep & cross network and practical lessons for web-scale learning to rank
systems, WWW 2021.
"""

import tensorflow as tf
from typing_extensions import assert_never

from schemas.spec.models import DcnV2
from trainer_module.dense.layers import Dense, Mlp
from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Blocks, Weight, Weights, blocks_of, width_of

# Shape suffixes: B batch, I inputs, E experts, R rank, D width of the deep part.

_DEEP = "interaction/deep"


class DcnV2Interaction:
    """Cross layers, x_{l+1} = x_0 * c_l(x_l) + x_l, one after another; beside them an MLP over x_0, unless left out."""

    def __init__(self, spec: DcnV2, *, inputs: Blocks, dropout: float):
        layers = [_layer(f"interaction/cross/{number}", spec, inputs) for number in range(spec.num_layers)]
        self._crosses = layers
        self._deep = Mlp(_DEEP, inputs, spec.deep_units, dropout=dropout) if spec.deep_units else None
        # A cross has one position for each feature; no feature's name has a slash.
        self.outputs = (*inputs, (_DEEP, self._deep.outputs)) if self._deep else inputs
        deep = self._deep.weights if self._deep else ()
        self.weights = (*(weight for layer in layers for weight in layer.weights), *deep)
        self.shared = (*layers[-1].matrices, *(deep[-2].name,)) if deep else layers[-1].matrices

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """See `Interaction`."""
        crossed_BI = x_BI
        for layer in self._crosses:
            crossed_BI = x_BI * layer(weights, crossed_BI) + crossed_BI
        return tf.concat([crossed_BI, self._deep(weights, x_BI, noise)], axis=1) if self._deep else crossed_BI


class FullCross:
    """c(x) = W x + b: equation 1.

    >>> cross = FullCross("cross", (("age", 1), ("clicks", 1)))
    >>> weights = {"cross/w": tf.constant([[1.0, 0.0], [2.0, 1.0]]), "cross/b": tf.constant([0.0, 1.0])}
    >>> cross(weights, tf.constant([[3.0, 4.0]])).numpy().tolist()
    [[11.0, 5.0]]
    """

    def __init__(self, name: str, inputs: Blocks):
        self._product = Dense(name, inputs, inputs, relu=False)
        self.weights = self._product.weights
        self.matrices = (f"{name}/w",)

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, inputs]."""
        return self._product(weights, x_BI)


class LowRankCross:
    """c(x) = U (V^T x) + b: equation 2."""

    def __init__(self, name: str, inputs: Blocks, rank: int):
        self._name, width = name, width_of(inputs)
        self.weights = (
            Weight(f"{name}/v", (width, rank), blocks=blocks_of(inputs, rank)),
            Weight(f"{name}/u", (rank, width), blocks=blocks_of(rank, inputs)),
            Weight(f"{name}/b", (width,), "zeros", blocks=blocks_of(inputs)),
        )
        self.matrices = (f"{name}/v", f"{name}/u")

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, inputs]."""
        projected_BR = tf.matmul(x_BI, weights[f"{self._name}/v"])
        return tf.nn.bias_add(tf.matmul(projected_BR, weights[f"{self._name}/u"]), weights[f"{self._name}/b"])


class MixedCross:
    """c(x) = sum_e G_e(x) U_e g(C_e g(V_e^T x)) + b: equations 3 and 4, experts mixed by a gate of x.

    G is a softmax (the paper: sigmoid or softmax), so that b need not be weighted; g is tanh (any nonlinearity).
    """

    def __init__(self, name: str, inputs: Blocks, rank: int, experts: int):
        self._name, self._rank, self._experts, width = name, rank, experts, width_of(inputs)
        self._expert_gate = Dense(f"{name}/expert_gate", inputs, experts, relu=False)
        self.weights = (
            Weight(f"{name}/v", (width, experts * rank), columns=experts, blocks=blocks_of(inputs, experts * rank)),
            Weight(f"{name}/c", (experts, rank, rank)),
            Weight(f"{name}/u", (experts, rank, width), blocks=blocks_of(experts, rank, inputs)),
            Weight(f"{name}/b", (width,), "zeros", blocks=blocks_of(inputs)),
            *self._expert_gate.weights,
        )
        self.matrices = (f"{name}/v", f"{name}/c", f"{name}/u")

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, inputs]."""
        name, experts, rank = self._name, self._experts, self._rank
        gates_BE = tf.nn.softmax(self._expert_gate(weights, x_BI))
        projected = tf.tanh(tf.matmul(x_BI, weights[f"{name}/v"]))
        projected_EBR = tf.transpose(tf.reshape(projected, [-1, experts, rank]), [1, 0, 2])
        nonlinear_EBR = tf.tanh(tf.matmul(projected_EBR, weights[f"{name}/c"]))
        # Weighted before the last product, all experts' sum is one product.
        weighted_BER = tf.transpose(nonlinear_EBR, [1, 0, 2]) * gates_BE[:, :, None]
        u = tf.reshape(weights[f"{name}/u"], [experts * rank, -1])
        return tf.nn.bias_add(tf.matmul(tf.reshape(weighted_BER, [-1, experts * rank]), u), weights[f"{name}/b"])


def _layer(name: str, spec: DcnV2, inputs: Blocks) -> FullCross | LowRankCross | MixedCross:
    match (spec.rank, spec.num_experts):
        case (None, _):
            return FullCross(name, inputs)
        case (int() as rank, 1):
            return LowRankCross(name, inputs, rank)
        case (int() as rank, experts):
            return MixedCross(name, inputs, rank, experts)
        case _ as unknown:
            assert_never(unknown)
