"""From the rows of a multi-valued feature to one vector per example. No values: zeros."""

from typing import Literal

import tensorflow as tf
from typing_extensions import assert_never

# Shape suffixes: n values of all examples in a row, B batch, D dimension, L positions.


def combine(
    values_nD: tf.Tensor, example_of_value_n: tf.Tensor, batch: tf.Tensor, how: Literal["sum", "mean", "sqrtn"]
) -> tf.Tensor:
    """Returns the sum of each example's values, divided by their number (mean), its root (sqrtn) or nothing (sum).

    Args:
        values_nD: values of all examples, example after example.
        example_of_value_n: int64, which example each belongs to.
        batch: number of examples, int64 scalar.
        how: the declared combiner.

    Returns:
        [batch, dim].
    """
    sums_BD = tf.math.unsorted_segment_sum(values_nD, example_of_value_n, batch)
    if how == "sum":
        return sums_BD
    ones_n1 = tf.ones_like(values_nD[:, :1])
    counts_B1 = tf.maximum(tf.math.unsorted_segment_sum(ones_n1, example_of_value_n, batch), 1.0)
    match how:
        case "mean":
            return sums_BD / counts_B1
        case "sqrtn":
            return sums_BD * tf.math.rsqrt(counts_B1)
        case _:
            assert_never(how)


def weigh_positions(ragged_keys: tf.RaggedTensor, values_nD: tf.Tensor, position_logits_L: tf.Tensor) -> tf.Tensor:
    """Returns sum_i a_i x_i with a = softmax(position logits) over the positions an example has: [batch, dim]."""
    examples_n, batch = ragged_keys.value_rowids(), ragged_keys.nrows()
    positions_n = tf.range(tf.size(examples_n, tf.int64)) - tf.gather(ragged_keys.row_starts(), examples_n)
    exponents_L = tf.exp(position_logits_L - tf.reduce_max(position_logits_L))
    exponents_n1 = tf.gather(exponents_L, positions_n)[:, None]
    sums_BD = tf.math.unsorted_segment_sum(values_nD * exponents_n1, examples_n, batch)
    totals_B1 = tf.math.unsorted_segment_sum(exponents_n1, examples_n, batch)
    return tf.math.divide_no_nan(sums_BD, totals_B1)
