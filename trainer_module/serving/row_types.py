"""Stored types of an embedding: float32 as trained, half precision, or 8-bit integers with a scale for each row.

The export and `upsert` reduce rows by the same operations, so that a row reads the same either way.
"""

from typing import Literal, assert_never

import tensorflow as tf

Rows = Literal["float32", "float16", "int8"]

_SCALE_BYTES = 4
_LARGEST_INT8 = 127.0
_LARGEST_HALF = 65504.0

# Shape suffixes: n rows, D dimension, S width of a stored row.


class RowType:
    """The type of a stored row of an embedding.

    Attributes:
        rows: the spec's `export.rows`.
        dim: floats of the embedding.
        dtype: type of a stored row's numbers.
        width: numbers in a stored row.
    """

    def __init__(self, rows: Rows, dim: int):
        self.rows, self.dim = rows, dim
        self.dtype = tf.as_dtype(rows)
        self.width = dim + (_SCALE_BYTES if rows == "int8" else 0)

    def pack(self, rows_nD: tf.Tensor) -> tf.Tensor:
        """Returns the stored form of float32 embeddings: [n, dim] to [n, width].

        float16: the nearest half, within 2^-11 of the value or 2^-25, whichever is more; values beyond 65504 are
        clipped. int8: round(x / s) with s = max|x| / 127, within s / 2, followed by the bytes of s, so that one read
        fetches both.
        """
        match self.rows:
            case "float32":
                return rows_nD
            case "float16":
                return tf.cast(tf.clip_by_value(rows_nD, -_LARGEST_HALF, _LARGEST_HALF), tf.float16)
            case "int8":
                scale_n1 = tf.reduce_max(tf.abs(rows_nD), axis=1, keepdims=True) / _LARGEST_INT8
                steps_nD = tf.round(tf.math.divide_no_nan(rows_nD, scale_n1))
                steps_nD = tf.cast(tf.clip_by_value(steps_nD, -_LARGEST_INT8, _LARGEST_INT8), tf.int8)
                scale_bytes = tf.reshape(tf.bitcast(scale_n1, tf.int8), [-1, _SCALE_BYTES])
                return tf.concat([steps_nD, scale_bytes], axis=1)
            case _:
                assert_never(self.rows)

    def unpack(self, stored_nS: tf.Tensor) -> tf.Tensor:
        """Returns stored rows as float32 embeddings: [n, width] to [n, dim]."""
        match self.rows:
            case "float32":
                return stored_nS
            case "float16":
                return tf.cast(stored_nS, tf.float32)
            case "int8":
                scale_n = tf.bitcast(stored_nS[:, self.dim :], tf.float32)
                return tf.cast(stored_nS[:, : self.dim], tf.float32) * scale_n[:, None]
            case _:
                assert_never(self.rows)
