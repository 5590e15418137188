"""A learned weight for each position."""

import tensorflow as tf

from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.lists import Lists


class PositionalLists:
    """sum_i a_i x_i with a = softmax(position logits) over the positions that a list has."""

    def __init__(self, feature: str):
        self._name = f"encoders/{feature}/positions"

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:  # noqa: ARG002
        """See `Encoder`."""
        logits = weights[self._name]
        list_n, position_n = lists.positions()
        exponents_n1 = tf.gather(tf.exp(logits - tf.reduce_max(logits)), position_n)[:, None]
        num_lists = tf.size(lists.lengths_R)
        sums_RD = tf.math.unsorted_segment_sum(lists.values_nD * exponents_n1, list_n, num_lists)
        totals_R1 = tf.math.unsorted_segment_sum(exponents_n1, list_n, num_lists)
        return tf.math.divide_no_nan(sums_RD, totals_R1)
