"""Attention of a list to a target.

Reference: Zhou et al.: Deep interest network for click-through rate prediction, KDD 2018.
"""

import tensorflow as tf

from sangam.schemas.spec.encoders import DinEncoder
from sangam.trainer_module.dense.layers import Dense, Mlp
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.lists import Lists

# Shape suffixes: R lists, Q targets, C the larger of both, L longest list, n values of all lists in a row, D dimension,
# U units of the first layer.


class DinLists:
    """sum_i a(x_i, t) x_i: equation 3. The weights are not normalized, so that many likes weigh more than one.

    The activation unit a (figure 2) is an MLP over x, x * t and t, with relu; the paper's x - t adds nothing to a
    linear layer of x and t.
    """

    def __init__(self, feature: str, spec: DinEncoder, dim: int):
        name, units = f"encoders/{feature}", spec.units
        self._name, self._dim, self._units = name, dim, units[0]
        self._first = Dense(f"{name}/first", relu=True)
        self._rest = Mlp(f"{name}/rest", len(units) - 1)
        self._head = Dense(f"{name}/head", relu=False)

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:
        """See `Encoder`; either lists or targets may be one for all of the others."""
        if target is None:
            raise ValueError(f"{self._name}: a target is needed")
        return self._each(weights, lists, target) if lists.has_own_targets else self._all(weights, lists, target)

    def _each(self, weights: Weights, lists: Lists, target: tf.Tensor) -> tf.Tensor:
        """Takes the values in a row: padded to the longest list, most of a batch would be padding."""
        x_nD, (list_n, _) = lists.values_nD, lists.positions()
        target_nD = tf.gather(target, list_n)
        hidden = self._first(weights, tf.concat([x_nD, x_nD * target_nD, target_nD], 1))
        attention_n1 = self._head(weights, self._rest(weights, hidden))
        return tf.math.unsorted_segment_sum(attention_n1 * x_nD, list_n, tf.size(lists.lengths_R))

    def _all(self, weights: Weights, lists: Lists, target: tf.Tensor) -> tf.Tensor:
        """Pairs lists and targets; either may be one for all of the others.

        x W_1 + (x * t) W_2 + t W_3 + b is x (W_1 + diag(t) W_2) + (t W_3 + b): one product, whose matrix is made of a
        target, once for all values of a list.
        """
        x_RLD, is_there_RL = lists.padded()
        w_x, w_both, w_target = tf.split(weights[f"{self._name}/first/w"], 3)
        of_target_CU = tf.matmul(target, w_target) + weights[f"{self._name}/first/b"]
        matrix_CDU = tf.concat([w_x + target[:, :, None] * w_both, of_target_CU[:, None]], 1)
        hidden_CLU = tf.matmul(tf.concat([x_RLD, tf.ones_like(x_RLD[:, :, :1])], 2), matrix_CDU)
        hidden = self._rest(weights, tf.reshape(tf.nn.relu(hidden_CLU), [-1, self._units]))
        scores_CL = tf.reshape(self._head(weights, hidden), tf.shape(hidden_CLU)[:2])
        attention_C1L = tf.where(is_there_RL, scores_CL, 0.0)[:, None]
        return tf.reshape(tf.matmul(attention_C1L, x_RLD), [-1, self._dim])
