"""Self-attention over a list.

References: Vaswani et al.: Attention is all you need, NIPS 2017; Xiong et al.: On layer normalization in the
transformer architecture, ICML 2020.
"""

import math

import tensorflow as tf

from sangam.schemas.spec.encoders import TransformerEncoder
from sangam.trainer_module.dense.layers import Dense
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.in_parts import with_column
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.encoders.norm import Norm

_HIDDEN = -1e9
"""Added to the logits of positions behind a list's end."""

# Shape suffixes: R lists, L longest list, D dimension, H heads, K width of a head.


class TransformerLists:
    """Layers of section 3.1, without dropout, over x + learned positions; then the mean over the positions present."""

    def __init__(self, feature: str, spec: TransformerEncoder, dim: int):
        name = f"encoders/{feature}"
        self._positions, self._dim = f"{name}/positions", dim
        self._layers = [_Layer(f"{name}/{number}", spec, dim) for number in range(spec.num_layers)]

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:  # noqa: ARG002
        """See `Encoder`."""
        x_RLD, is_there_RL = lists.padded()
        x_RLD += weights[self._positions][: tf.shape(x_RLD)[1]]
        hidden_R1L = tf.where(is_there_RL, 0.0, _HIDDEN)[:, None]
        for layer in self._layers:
            x_RLD = layer(weights, x_RLD, hidden_R1L)
        sums_RD = tf.reduce_sum(tf.where(is_there_RL[:, :, None], x_RLD, 0.0), axis=1)
        return tf.math.divide_no_nan(sums_RD, tf.cast(lists.lengths_R, tf.float32)[:, None])


class _Layer:
    """y = x + attention(norm(x)), then y + W_2 relu(W_1 norm(y) + b_1) + b_2: section 3.1, norms first (Xiong et al.).

    See `target_transformer`.
    """

    def __init__(self, name: str, spec: TransformerEncoder, dim: int):
        self._num_heads, self._dim = spec.num_heads, dim
        self._queries, self._keys, self._values, self._mixed = (
            Dense(f"{name}/{part}", relu=False) for part in ("queries", "keys", "values", "mixed")
        )
        self._wide, self._narrow = Dense(f"{name}/wide", relu=True), Dense(f"{name}/narrow", relu=False)
        self._norms = [Norm(f"{name}/norm_{number}") for number in (1, 2)]

    def __call__(self, weights: Weights, x_RLD: tf.Tensor, hidden_R1L: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(x_RLD)
        x = tf.reshape(x_RLD, [-1, self._dim])
        y = x + self._attention(weights, self._norms[0](weights, x), shape, hidden_R1L)
        return tf.reshape(y + self._narrow(weights, self._wide(weights, self._norms[1](weights, y))), shape)

    def _attention(self, weights: Weights, x: tf.Tensor, shape: tf.Tensor, hidden_R1L: tf.Tensor) -> tf.Tensor:
        width = self._dim // self._num_heads
        heads = tf.stack([shape[0], shape[1], self._num_heads, width])
        queries, keys, values = (
            tf.transpose(tf.reshape(layer(weights, x), heads), [0, 2, 1, 3])
            for layer in (self._queries, self._keys, self._values)
        )
        keys = with_column(keys / math.sqrt(width), hidden_R1L)
        logits_RHLL = tf.matmul(with_column(queries, tf.constant(1.0)), keys, transpose_b=True)
        # Transposed: with so few columns, the plain product takes twice the time.
        mixed_RHKL = tf.matmul(values, tf.nn.softmax(logits_RHLL), transpose_a=True, transpose_b=True)
        return self._mixed(weights, tf.reshape(tf.transpose(mixed_RHKL, [0, 3, 1, 2]), [-1, self._dim]))
