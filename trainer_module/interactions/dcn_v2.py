"""Deep & cross network, version 2.

Reference: Wang et al.: DCN V2: Improved deep & cross network and practical lessons for web-scale learning to rank
systems, WWW 2021.
"""

from typing import assert_never

import tensorflow as tf

from sangam.schemas.derived.once import are_narrow
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.spec.models import DcnV2
from sangam.trainer_module.dense.layers import Dense, Mlp, linear
from sangam.trainer_module.dense.members import product
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input, Split, crossed, of_rows, side_by_side, whole, with_zero
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: B batch, I inputs, E experts, R rank, or of all experts together.


class DcnV2Interaction:
    """Cross layers, x_{l+1} = x_0 * c_l(x_l) + x_l, one after another; beside them an MLP over x_0, unless left out."""

    def __init__(self, spec: DcnV2, *, inputs: ModelInputs, dropout: float):
        self._is_narrow = are_narrow(spec, inputs.width)
        self._crosses = [_layer(f"interaction/cross/{number}", spec) for number in range(spec.num_layers)]
        self._deep = Mlp("interaction/deep", len(spec.deep_units), dropout=dropout) if spec.deep_units else None
        self.shared = (*self._crosses[-1].matrices, *(self._deep.matrices[-1:] if self._deep else ()))

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> Input:
        """See `Interaction`."""
        if isinstance(x_BI, Split) and x_BI.members == 1 and self._is_narrow:
            return self._of_split(weights, x_BI)
        first, *others = self._crosses
        whole_BI = whole(x_BI)
        crossed_BI = whole_BI * first(weights, x_BI) + whole_BI
        for layer in others:
            crossed_BI = whole_BI * layer(weights, crossed_BI) + crossed_BI
        return tf.concat([crossed_BI, self._deep(weights, x_BI, noise)], axis=1) if self._deep else crossed_BI

    def _of_split(self, weights: Weights, x: Split) -> Split:
        last = x = with_zero(x)
        for layer in self._crosses:
            assert not isinstance(layer, Dense)
            last = crossed(x, last, *layer.factors(weights, last))
        return side_by_side([last, of_rows(self._deep(weights, x), x.requests)]) if self._deep else last


class LowRankCross:
    """c(x) = U (V^T x) + b: equation 2."""

    def __init__(self, name: str):
        self._bias, self.matrices = f"{name}/b", (f"{name}/v", f"{name}/u")

    def __call__(self, weights: Weights, x_BI: Input) -> tf.Tensor:
        """Returns [batch, inputs]."""
        v, u = self.matrices
        return linear(weights, u, linear(weights, v, x_BI), self._bias)

    def factors(self, weights: Weights, x_BI: Input) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns h [batch, R], U and b of c(x) = h U + b; not of an ensemble."""
        v, u = self.matrices
        return linear(weights, v, x_BI), weights[u], weights[self._bias]


class MixedCross:
    """c(x) = sum_e G_e(x) U_e g(C_e g(V_e^T x)) + b: equations 3 and 4, experts mixed by a gate of x.

    G is a softmax (the paper: sigmoid or softmax), so that b need not be weighted; g is tanh (any nonlinearity).
    """

    def __init__(self, name: str, rank: int, experts: int):
        self._rank, self._experts, self._bias = rank, experts, f"{name}/b"
        self.matrices = (f"{name}/v", f"{name}/c", f"{name}/u")
        self._expert_gate = Dense(f"{name}/expert_gate", relu=False)

    def __call__(self, weights: Weights, x_BI: Input) -> tf.Tensor:
        """Returns [batch, inputs]."""
        weighted, u, _ = self.factors(weights, x_BI)
        return linear({**weights, self.matrices[-1]: u}, self.matrices[-1], weighted, self._bias)

    def factors(self, weights: Weights, x_BI: Input) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `LowRankCross`."""
        experts, rank, (v, c, u) = self._experts, self._rank, self.matrices
        gates_BE = tf.nn.softmax(self._expert_gate(weights, x_BI))
        projected = tf.tanh(linear(weights, v, x_BI))
        projected_EBR = tf.transpose(tf.reshape(projected, [-1, experts, rank]), [1, 0, 2])
        nonlinear_EBR = tf.tanh(product(weights, c, projected_EBR))
        # Weighted before the last product, all experts' sum is one product.
        weighted_BER = tf.transpose(nonlinear_EBR, [1, 0, 2]) * gates_BE[:, :, None]
        weighted = tf.reshape(weighted_BER, [-1, experts * rank])
        whole_u = tf.reshape(weights[u], [experts * rank, weights[u].shape[-1]])
        return weighted, whole_u, weights[self._bias]


def _layer(name: str, spec: DcnV2) -> Dense | LowRankCross | MixedCross:
    match (spec.rank, spec.num_experts):
        case (None, _):
            return Dense(name, relu=False)  # c(x) = W x + b: equation 1.
        case (int(), 1):
            return LowRankCross(name)
        case (int() as rank, experts):
            return MixedCross(name, rank, experts)
        case _ as unknown:
            assert_never(unknown)
