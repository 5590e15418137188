"""Deep & cross network, version 2.

Reference: Wang et al.: DCN V2: Improved deep & cross network and practical lessons for web-scale learning to rank
systems, WWW 2021.
"""

import tensorflow as tf
from typing_extensions import assert_never

from schemas.spec.models import DcnV2
from trainer_module.dense.layers import Dense, Mlp
from trainer_module.dense.members import Bias, Factors
from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Blocks, Weight, Weights, blocks_of, width_of

# Shape suffixes: B batch, I inputs, E experts, R rank, D width of the deep part.

_DEEP = "interaction/deep"


class DcnV2Interaction:
    """Cross layers, x_{l+1} = x_0 * c_l(x_l) + x_l, one after another; beside them an MLP over x_0, unless left out."""

    def __init__(self, spec: DcnV2, *, inputs: Blocks, dropout: float, members: int):
        layers = [_layer(f"interaction/cross/{number}", spec, inputs, members) for number in range(spec.num_layers)]
        self._crosses = layers
        self._deep = Mlp(_DEEP, inputs, spec.deep_units, dropout=dropout, members=members) if spec.deep_units else None
        # A cross has one position for each feature; no feature's name has a slash.
        self.outputs = (*inputs, (_DEEP, self._deep.outputs)) if self._deep else inputs
        deep = self._deep.weights if self._deep else ()
        self.weights = (*(weight for layer in layers for weight in layer.weights), *deep)
        self.shared = (*layers[-1].matrices, *(self._deep.matrices[-1:] if self._deep else ()))

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

    def __init__(self, name: str, inputs: Blocks, members: int = 1):
        self._product = Dense(name, inputs, inputs, relu=False, members=members)
        self.weights = self._product.weights
        self.matrices = (self._product.matrix,)

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, inputs]."""
        return self._product(weights, x_BI)


class LowRankCross:
    """c(x) = U (V^T x) + b: equation 2."""

    def __init__(self, name: str, inputs: Blocks, rank: int, members: int = 1):
        v, u = self.matrices = (f"{name}/v", f"{name}/u")
        width = width_of(inputs)
        self._of_v, self._of_u = Factors(v, inputs, rank, members), Factors(u, rank, inputs, members)
        self._bias = Bias(f"{name}/b", inputs, members)
        self.weights = (
            Weight(v, (width, rank), blocks=blocks_of(inputs, rank)),
            *self._of_v.weights,
            Weight(u, (rank, width), blocks=blocks_of(rank, inputs)),
            *self._of_u.weights,
            *self._bias.weights,
        )

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, inputs]."""
        v, u = self.matrices
        projected_BR = self._of_v.product(weights, x_BI, weights[v])
        return self._bias(weights, self._of_u.product(weights, projected_BR, weights[u]))


class MixedCross:
    """c(x) = sum_e G_e(x) U_e g(C_e g(V_e^T x)) + b: equations 3 and 4, experts mixed by a gate of x.

    G is a softmax (the paper: sigmoid or softmax), so that b need not be weighted; g is tanh (any nonlinearity).
    """

    def __init__(self, name: str, inputs: Blocks, rank: int, experts: int, members: int = 1):
        self._rank, self._experts, width, wide = rank, experts, width_of(inputs), experts * rank
        v, c, u = self.matrices = (f"{name}/v", f"{name}/c", f"{name}/u")
        self._of_v, self._of_u = Factors(v, inputs, wide, members), Factors(u, wide, inputs, members)
        self._of_c = Factors(c, rank, rank, members, experts=experts)
        self._bias = Bias(f"{name}/b", inputs, members)
        self._expert_gate = Dense(f"{name}/expert_gate", inputs, experts, relu=False, members=members)
        self.weights = (
            Weight(v, (width, wide), columns=experts, blocks=blocks_of(inputs, wide)),
            *self._of_v.weights,
            Weight(c, (experts, rank, rank)),
            *self._of_c.weights,
            Weight(u, (experts, rank, width), blocks=blocks_of(experts, rank, inputs)),
            *self._of_u.weights,
            *self._bias.weights,
            *self._expert_gate.weights,
        )

    def __call__(self, weights: Weights, x_BI: tf.Tensor) -> tf.Tensor:
        """Returns [batch, inputs]."""
        experts, rank, (v, c, u) = self._experts, self._rank, self.matrices
        gates_BE = tf.nn.softmax(self._expert_gate(weights, x_BI))
        projected = tf.tanh(self._of_v.product(weights, x_BI, weights[v]))
        projected_EBR = tf.transpose(tf.reshape(projected, [-1, experts, rank]), [1, 0, 2])
        nonlinear_EBR = tf.tanh(self._of_c.product(weights, projected_EBR, weights[c]))
        # Weighted before the last product, all experts' sum is one product.
        weighted_BER = tf.transpose(nonlinear_EBR, [1, 0, 2]) * gates_BE[:, :, None]
        weighted = tf.reshape(weighted_BER, [-1, experts * rank])
        y_BI = self._of_u.product(weights, weighted, tf.reshape(weights[u], [experts * rank, -1]))
        return self._bias(weights, y_BI)


def _layer(name: str, spec: DcnV2, inputs: Blocks, members: int) -> FullCross | LowRankCross | MixedCross:
    match (spec.rank, spec.num_experts):
        case (None, _):
            return FullCross(name, inputs, members)
        case (int() as rank, 1):
            return LowRankCross(name, inputs, rank, members)
        case (int() as rank, experts):
            return MixedCross(name, inputs, rank, experts, members)
        case _ as unknown:
            assert_never(unknown)
