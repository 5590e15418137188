"""From the embeddings of several ids to one vector; zeros for no ids."""

from typing import Literal

import tensorflow as tf

COMBINERS: tuple[Literal["sum", "mean", "sqrtn"], ...] = ("sum", "mean", "sqrtn")

# Shape suffixes: n values of all lists in a row, S lists, D dimension.


def lists_of_values(lengths_S: tf.Tensor, num_values: tf.Tensor) -> tf.Tensor:
    """Returns the list of each value, given the lengths of the lists: [n] int32.

    Linear in n and S: `tf.repeat` takes S times the longest list.

    >>> lists_of_values(tf.constant([2, 0, 1], tf.int64), 3).numpy().tolist()
    [0, 0, 2]
    """
    starts_S = tf.cumsum(lengths_S, exclusive=True)
    # Counts how many lists begin at each value; empty lists at the end begin after the last value.
    begun = tf.math.unsorted_segment_sum(tf.ones_like(starts_S[1:], tf.int32), starts_S[1:], num_values + 1)
    return tf.cumsum(begun[:-1])


def combine(
    values_nD: tf.Tensor,
    lengths_S: tf.Tensor,
    combiners_S: tf.Tensor,
    weights_n: tf.Tensor | None = None,
    of_value_n: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns sum w x of each list, divided by nothing (sum), sum w (mean) or sqrt(sum w^2) (sqrtn): [lists, dim].

    Args:
        values_nD: list after list.
        lengths_S: int64, how many values each list has.
        combiners_S: int32, index in `COMBINERS` of each list's.
        weights_n: w of each value; 1 when left out.
        of_value_n: `lists_of_values` where it is known.

    >>> values, lengths = tf.constant([[1.0], [3.0], [5.0]]), tf.constant([2, 1], tf.int64)
    >>> combine(values, lengths, tf.constant([COMBINERS.index("mean")] * 2)).numpy().tolist()
    [[2.0], [5.0]]
    """
    num_lists = tf.size(lengths_S)
    if of_value_n is None:
        of_value_n = lists_of_values(lengths_S, tf.shape(values_nD)[0])
    sums_S = squares_S = tf.cast(lengths_S, values_nD.dtype)
    if weights_n is not None:
        values_nD *= weights_n[:, None]
        both = tf.math.unsorted_segment_sum(tf.stack([weights_n, tf.square(weights_n)], 1), of_value_n, num_lists)
        sums_S, squares_S = tf.unstack(both, axis=1)
    divisors = tf.stack([tf.ones_like(sums_S), sums_S, tf.sqrt(squares_S)], 1)
    divisors_S = tf.gather(divisors, combiners_S, axis=1, batch_dims=1)
    return tf.math.divide_no_nan(tf.math.unsorted_segment_sum(values_nD, of_value_n, num_lists), divisors_S[:, None])
