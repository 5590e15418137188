"""A transformer over a list and a target.

References: Vaswani et al.: Attention is all you need, NIPS 2017; Chen et al.: Behavior sequence transformer for
e-commerce recommendation in Alibaba, DLP-KDD 2019; Xiong et al.: On layer normalization in the transformer
architecture, ICML 2020.
"""

import math

import tensorflow as tf

from sangam.schemas.spec.encoders import TargetTransformerEncoder
from sangam.trainer_module.dense.layers import Dense
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.isolated import Isolated, encoded
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.encoders.norm import Norm

# Shape suffixes: m rows, values and targets; D dimension.


class TargetTransformerLists:
    """The state of the target behind the layers."""

    def __init__(self, feature: str, spec: TargetTransformerEncoder, dim: int):
        self._name, self._dim = f"encoders/{feature}", dim
        width = dim // spec.num_heads
        self._layers = [_Layer(f"{self._name}/{number}", width) for number in range(spec.num_layers)]

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:
        """See `Encoder`."""
        if target is None:
            raise ValueError(f"{self._name}: a target is needed")
        return encoded(weights, lists, target, self._layers, self._dim)


class _Layer:
    """y = x + attention(norm(x)), then y + W_2 relu(W_1 norm(y) + b_1) + b_2: section 3.1 of Vaswani et al., without
    dropout, norms first as in Xiong et al.; biases of relative positions and ages are added to the logits.

    Rows begin near 0. With norms behind the sums, as in section 3.1, products of queries and keys begin near 0 squared:
    for some passes attention learns next to nothing.
    """

    def __init__(self, name: str, width: int):
        self._name, self._scale = name, 1.0 / math.sqrt(width)
        self._keys_values, self._queries, self._mixed = (
            Dense(f"{name}/{part}", relu=False) for part in ("keys_values", "queries", "mixed")
        )
        self._wide, self._narrow = Dense(f"{name}/wide", relu=True), Dense(f"{name}/narrow", relu=False)
        self._norms = [Norm(f"{name}/norm_{number}") for number in (1, 2)]

    def __call__(self, weights: Weights, x_mD: tf.Tensor, isolated: Isolated, *, is_last: bool) -> tf.Tensor:
        normal_mD = self._norms[0](weights, x_mD)
        keys_values = self._keys_values(weights, normal_mD)
        own, own_normal = (isolated.candidates(rows) if is_last else rows for rows in (x_mD, normal_mD))
        queries = self._queries(weights, own_normal) * self._scale
        tables = isolated.tables(weights, self._name)
        sums = isolated.attended(queries, keys_values, tables, tf.nn.softmax, of_candidates=is_last)
        y = own + self._mixed(weights, sums)
        return y + self._narrow(weights, self._wide(weights, self._norms[1](weights, y)))
