"""Columns as Transform and requests give them: SparseTensors, each with its own number of rows.

In training every column has as many rows as the batch. In a request a column has one row or one for each candidate, so
that what is made of two columns first brings them to one number of rows.
"""

from typing import Any

import tensorflow as tf

# Shape suffixes: R rows of a column; n values of all its rows.


def one_value(column: tf.SparseTensor, default: Any) -> tf.Tensor:
    """Returns the one value of each row, or the default: [R]."""
    one_wide = tf.SparseTensor(column.indices, column.values, [column.dense_shape[0], 1])
    return tf.reshape(tf.sparse.to_dense(one_wide, default), [-1])


def is_present(column: tf.SparseTensor) -> tf.Tensor:
    """Returns which rows have their one value: [R] bool."""
    return one_value(tf.SparseTensor(column.indices, tf.ones_like(column.values, tf.bool), column.dense_shape), False)


def num_values(column: tf.SparseTensor) -> tf.Tensor:
    """Returns how many values each row has: [R] int64."""
    ones_n = tf.ones_like(column.values, tf.int64)
    return tf.math.unsorted_segment_sum(ones_n, column.indices[:, 0], column.dense_shape[0])


def head(column: tf.SparseTensor, count: int) -> tf.SparseTensor:
    """Keeps the first `count` values of each row."""
    return tf.sparse.retain(column, column.indices[:, 1] < count)


def turned_round(column: tf.SparseTensor) -> tf.SparseTensor:
    """Returns each row from its last value to its first."""
    rows_n, places_n = tf.unstack(column.indices, axis=1)
    from_the_end_n = tf.gather(num_values(column), rows_n) - 1 - places_n
    return tf.sparse.reorder(tf.SparseTensor(tf.stack([rows_n, from_the_end_n], 1), column.values, column.dense_shape))


def filled(column: tf.SparseTensor, value: Any, dtype: tf.DType) -> tf.Tensor:
    """Returns one value for every row of a column, whatever it holds: [R]."""
    return tf.fill([column.dense_shape[0]], tf.constant(value, dtype))


def rows_of_both(first_R: tf.Tensor, second_R: tf.Tensor) -> tf.Tensor:
    """Returns the common number of rows of two columns, of which one may have a single row: int32 [1]."""
    return tf.broadcast_dynamic_shape(tf.shape(first_R), tf.shape(second_R))
