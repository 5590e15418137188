"""Hierarchical sequential transduction units over a list and a target.

Reference: Zhai et al.: Actions speak louder than words: trillion-parameter sequential transducers for generative
recommendations, ICML 2024.
"""

import tensorflow as tf

from sangam.schemas.spec.encoders import HstuEncoder
from sangam.trainer_module.dense.layers import Dense
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.in_parts import by_silu
from sangam.trainer_module.encoders.isolated import Isolated, encoded
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.encoders.norm import normalized

# Shape suffixes: m rows, values and targets; D dimension.


class HstuLists:
    """The state of the target behind the layers."""

    def __init__(self, feature: str, spec: HstuEncoder, dim: int):
        self._name, self._dim = f"encoders/{feature}", dim
        self._layers = [_Layer(f"{self._name}/{number}") for number in range(spec.num_layers)]

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:
        """See `Encoder`."""
        if target is None:
            raise ValueError(f"{self._name}: a target is needed")
        return encoded(weights, lists, target, self._layers, self._dim)


class _Layer:
    """U, V, Q, K = silu(f_1(x)); A = silu(Q K^T + bias) / n; x + f_2(norm(A V) * (1 + U)): equations 1 to 3.

    As in the authors' code, f_1 takes norm(x), norms have no weights. n is the number of a list's values and its
    target, where the paper has the longest list: scores do not depend on what else is in a batch.

    Rows begin near 0, and so do Q K^T and U: with biases from 0 and U for 1 + U, as in the paper, a layer begins with
    nothing, a product of four small numbers, and learns little for passes. Biases of positions begin at 1: a layer
    begins with the sum of the values.
    """

    def __init__(self, name: str):
        self._name = name
        self._keys_values, self._queries_gates, self._mixed = (
            Dense(f"{name}/{part}", relu=False) for part in ("keys_values", "queries_gates", "mixed")
        )

    def __call__(self, weights: Weights, x_mD: tf.Tensor, isolated: Isolated, *, is_last: bool) -> tf.Tensor:
        normal_mD = normalized(x_mD)
        keys_values = _silu(self._keys_values(weights, normal_mD))
        own_x, own = (isolated.candidates(x_mD), isolated.candidates(normal_mD)) if is_last else (x_mD, normal_mD)
        queries, gates = tf.split(_silu(self._queries_gates(weights, own)), 2, axis=1)
        tables = isolated.tables(weights, self._name)
        sums = isolated.attended(queries, keys_values, tables, by_silu, of_candidates=is_last)
        means = sums / isolated.sizes(of_candidates=is_last)
        return own_x + self._mixed(weights, normalized(means) * (1.0 + gates))


def _silu(x: tf.Tensor) -> tf.Tensor:
    return x * tf.sigmoid(x)
