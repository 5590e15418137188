"""Numbers of values and rows: ranges one after another, and repetitions."""

import tensorflow as tf

_COUNT_BITS = 32
"""Bits of a number of values."""

# Shape suffixes: F numbers, n their repetitions.


def ranges(starts: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """Returns the numbers of each range, one range after another: int64."""
    one = tf.constant(1, tf.int64)
    return tf.raw_ops.RaggedRange(starts=starts, limits=limits, deltas=one, Tsplits=tf.int64).rt_dense_values


def repeated(numbers_F: tf.Tensor, counts_F: tf.Tensor) -> tf.Tensor:
    """Returns each number, from 0 to 2^31, as many times as is given for it: int64 [n].

    `tf.repeat` takes as many steps as if each number had the largest count, and a look-up of each number one by one.

    >>> repeated(tf.constant([7, 8, 9], tf.int64), tf.constant([2, 0, 1], tf.int64)).numpy().tolist()
    [7, 7, 9]
    """
    # A number's low bits count up, and are then dropped.
    first_F = tf.bitwise.left_shift(numbers_F, tf.constant(_COUNT_BITS, tf.int64))
    return tf.bitwise.right_shift(ranges(first_F, first_F + counts_F), tf.constant(_COUNT_BITS, tf.int64))


def numbers_of(counts_F: tf.Tensor) -> tf.Tensor:
    """Returns each number from 0 on as many times as is given for it: int64 [n]."""
    return repeated(tf.range(tf.size(counts_F, tf.int64)), counts_F)
