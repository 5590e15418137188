"""Where numbers lie among the ascending numbers of their column, all columns at once."""

import math
from collections.abc import Sequence

import tensorflow as tf

from sangam.trainer_module.transforms.stacked import Rows

# Shape suffixes: F features, each with one column; R rows of all columns.


def padded(lists: Sequence[Sequence[float]]) -> tf.Tensor:
    """Returns lists as rows of one length, infinity behind the shorter ones: [lists, longest] float32."""
    longest = max(map(len, lists))
    return tf.constant([[*each, *[math.inf] * (longest - len(each))] for each in lists], tf.float32)


def num_at_most(rows: Rows, ascending_FN: tf.Tensor) -> tf.Tensor:
    """Returns for each value how many of its column's numbers are at most as large: [R] int32.

    Args:
        rows: rows of float32.
        ascending_FN: `padded`, a row for each column.
    """
    values = tf.RaggedTensor.from_row_lengths(rows.values_R, rows.rows_F, validate=False).to_tensor()
    found_FB = tf.searchsorted(ascending_FN, tf.ensure_shape(values, [rows.num, None]), side="right")
    return tf.RaggedTensor.from_tensor(found_FB, lengths=rows.rows_F).flat_values
