"""Attention of a list to a target.

Reference: Zhou et al.: Deep interest network for click-through rate prediction, KDD 2018.
"""

from typing import Any

import tensorflow as tf

from sangam.schemas.spec.encoders import DinEncoder
from sangam.trainer_module.dense.layers import Dense, Mlp
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.lists import Lists

_FLOATS = 1 << 19
"""Most hidden units of pairs that are computed at a time: they stay in a processor's cache until they are added up."""

# Shape suffixes: R lists, C targets, n values of all lists in a row, D dimension, U units of the first layer; of some
# targets of one list, c targets, L values.


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
        if lists.has_own_targets:
            return self._each(weights, lists, target)
        list_C = lists.of_targets(tf.shape(target)[0])
        target_CD = tf.ensure_shape(tf.broadcast_to(target, [tf.size(list_C), self._dim]), [None, self._dim])
        return tf.cond(
            tf.equal(tf.size(lists.lengths_R), tf.size(list_C)),
            lambda: self._each(weights, lists, target_CD),
            lambda: self._shared(weights, lists, target_CD, list_C),
        )

    def _each(self, weights: Weights, lists: Lists, target: tf.Tensor) -> tf.Tensor:
        """Takes the values in a row: padded to the longest list, most of a batch would be padding."""
        x_nD, (list_n, _) = lists.values_nD, lists.positions()
        target_nD = tf.gather(target, list_n)
        hidden = self._first(weights, tf.concat([x_nD, x_nD * target_nD, target_nD], 1))
        attention_n1 = self._head(weights, self._rest(weights, hidden))
        return tf.math.unsorted_segment_sum(attention_n1 * x_nD, list_n, tf.size(lists.lengths_R))

    def _shared(self, weights: Weights, lists: Lists, target_CD: tf.Tensor, list_C: tf.Tensor) -> tf.Tensor:
        """Takes some targets of one list at a time.

        x W_1 + (x * t) W_2 + t W_3 + b is x (W_1 + diag(t) W_2) + (t W_3 + b): the matrices of several targets side by
        side, each made once for all values, are one product.
        """
        w_x, w_both, w_target = tf.split(weights[f"{self._name}/first/w"], 3)
        matrix_DCU = w_x[:, None] + tf.transpose(target_CD)[:, :, None] * w_both[:, None]
        bias_CU = tf.matmul(target_CD, w_target) + weights[f"{self._name}/first/b"]
        end_R = tf.cumsum(lists.lengths_R)
        last_R = tf.searchsorted(list_C, tf.range(tf.size(end_R)), side="right")

        def step(number: tf.Tensor, start: tf.Tensor, found: Any) -> Any:
            of_list, length = list_C[start], lists.lengths_R[list_C[start]]
            x_LD = lists.values_nD[end_R[of_list] - length : end_R[of_list]]
            at_a_time = tf.cast(_FLOATS // (tf.maximum(length, 1) * self._units), tf.int32)
            end = tf.minimum(start + tf.maximum(at_a_time, 1), last_R[of_list])
            # Of a known rank: the product, its bias and relu are one operation.
            x_LD = tf.ensure_shape(x_LD, [None, self._dim])
            sums_cD = self._sums(weights, x_LD, matrix_DCU[:, start:end], bias_CU[start:end])
            return number + 1, end, found.write(number, sums_cD)

        num, zero = tf.size(list_C), tf.constant(0)
        found = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False, element_shape=[None, self._dim])
        # No targets have sums too.
        found = found.write(0, tf.zeros([0, self._dim]))
        _, _, found = tf.while_loop(
            lambda _, start, __: start < num, step, (tf.constant(1), zero, found), parallel_iterations=1
        )
        return found.concat()

    def _sums(self, weights: Weights, x_LD: tf.Tensor, matrix_DcU: tf.Tensor, bias_cU: tf.Tensor) -> tf.Tensor:
        side_by_side = tf.reshape(matrix_DcU, [self._dim, -1])
        hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x_LD, side_by_side), tf.reshape(bias_cU, [-1])))
        hidden = self._rest(weights, tf.reshape(hidden, [-1, self._units]))
        scores_Lc = tf.reshape(self._head(weights, hidden), tf.stack([tf.shape(x_LD)[0], tf.shape(bias_cU)[0]]))
        return tf.matmul(scores_Lc, x_LD, transpose_a=True)
