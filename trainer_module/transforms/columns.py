"""Columns from Transform and from requests: SparseTensors, each with its own number of rows.

In training every column has as many rows as the batch. In a request a column has one row or one for each candidate, so
that what is made of two columns has the rows of the longer one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from sangam.trainer_module.transforms.stacked import Logged

# Shape suffixes: R rows of a column; n values of all its rows.


@dataclass(frozen=True, eq=False)
class OfSeveral:
    """What is known of a call with the candidates of several requests, whose columns have a row for each of either.

    Attributes:
        repeated: columns that features read together with others, with a row for each candidate.
        request_C: number of each candidate's request, int32.
    """

    repeated: Mapping[str, Logged]
    request_C: tf.Tensor


def one_value(column: tf.SparseTensor, default: Any) -> tf.Tensor:
    """Returns the one value of each row, or the default: [R]."""
    one_wide = tf.SparseTensor(column.indices, column.values, [column.dense_shape[0], 1])
    return tf.reshape(tf.sparse.to_dense(one_wide, default), [-1])


def is_present(column: tf.SparseTensor) -> tf.Tensor:
    """Returns whether each row has its one value: [R] bool."""
    return one_value(tf.SparseTensor(column.indices, tf.ones_like(column.values, tf.bool), column.dense_shape), False)


def num_values(column: tf.SparseTensor) -> tf.Tensor:
    """Returns the number of values of each row: [R] int64."""
    ones_n = tf.ones_like(column.values, tf.int64)
    return tf.math.unsorted_segment_sum(ones_n, column.indices[:, 0], column.dense_shape[0])
