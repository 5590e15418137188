"""Columns of many features, one after another, so that the number of operations does not grow with the features.

In training every column has as many rows as the batch. In a request a column has one row or one for each candidate, so
that the number of rows of each is kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

# Shape suffixes: F features, each with one column; n values of all columns; R rows of all columns; B batch in training.


@dataclass(frozen=True)
class Rows:
    """One value for each row of every column.

    Attributes:
        values_R: column after column.
        rows_F: int64, of each column.
        num: number of columns.
    """

    values_R: tf.Tensor
    rows_F: tf.Tensor
    num: int

    def feature_R(self) -> tf.Tensor:
        """Returns the number of each row's column."""
        return tf.repeat(tf.range(self.num), self.rows_F)

    def with_values(self, values_R: tf.Tensor) -> "Rows":
        """Returns other values of the same rows."""
        return replace(self, values_R=values_R)

    def parts(self) -> list[tf.Tensor]:
        """Returns the values of each column: [rows]."""
        return list(tf.split(self.values_R, self.rows_F, num=self.num))


@dataclass(frozen=True)
class Values:
    """All values of all columns.

    Attributes:
        values_n: column after column, row after row.
        row_n: int64, within the column.
        position_n: int64, within the row.
        sizes_F: int64, values of each column.
        rows_F: int64, rows of each column.
        num: number of columns.
    """

    values_n: tf.Tensor
    row_n: tf.Tensor
    position_n: tf.Tensor
    sizes_F: tf.Tensor
    rows_F: tf.Tensor
    num: int

    def feature_n(self) -> tf.Tensor:
        """Returns the number of each value's column."""
        return tf.repeat(tf.range(self.num), self.sizes_F)

    def row_of_all_n(self) -> tf.Tensor:
        """Returns the number of each value's row among the rows of all columns."""
        return self.row_n + tf.gather(tf.cumsum(self.rows_F, exclusive=True), self.feature_n())

    def lengths_R(self) -> tf.Tensor:
        """Returns the number of values of each row of all columns, int64."""
        ones_n = tf.ones_like(self.row_n)
        return tf.math.unsorted_segment_sum(ones_n, self.row_of_all_n(), tf.reduce_sum(self.rows_F))

    def only(self, which_n: tf.Tensor) -> "Values":
        """Returns the values for which this is true, at their positions."""
        kept = tf.where(which_n)[:, 0]
        return replace(
            self,
            values_n=tf.gather(self.values_n, kept),
            row_n=tf.gather(self.row_n, kept),
            position_n=tf.gather(self.position_n, kept),
            sizes_F=tf.math.unsorted_segment_sum(tf.ones_like(kept), tf.gather(self.feature_n(), kept), self.num),
        )

    def moved_up(self) -> "Values":
        """Returns the values of each row, which are in order, at positions from 0 on."""
        row_n = self.row_of_all_n()
        first_n = tf.searchsorted(row_n, row_n, out_type=tf.int64)
        return replace(self, position_n=tf.range(tf.size(row_n, tf.int64)) - first_n)

    def columns(self, shapes: Sequence[tf.Tensor]) -> list[tf.SparseTensor]:
        """Returns the columns as SparseTensors of these shapes."""
        indices = tf.split(tf.stack([self.row_n, self.position_n], 1), self.sizes_F, num=self.num)
        parts = tf.split(self.values_n, self.sizes_F, num=self.num)
        return [tf.SparseTensor(*column) for column in zip(indices, parts, shapes, strict=True)]

    def one_each(self, default: Any) -> Rows:
        """Returns the one value of each row, or the default.

        Raises:
            InvalidArgumentError: by the graph, for a row with several values.
        """
        total = tf.reduce_sum(self.rows_F)
        flat = tf.SparseTensor(self.row_of_all_n()[:, None], self.values_n, total[None])
        return Rows(tf.sparse.to_dense(flat, default), self.rows_F, self.num)


def side_by_side(parts: Sequence[tf.Tensor]) -> Rows:
    """Returns columns that have one value for each row, one behind the other."""
    return Rows(tf.concat(parts, 0), tf.stack(tf.shape_n(parts, tf.int64))[:, 0], len(parts))


def joined(rows: Sequence[Rows]) -> Rows:
    """Returns the columns of all."""
    values_R, rows_F = (
        tf.concat(parts, 0) for parts in zip(*((one.values_R, one.rows_F) for one in rows), strict=True)
    )
    return Rows(values_R, rows_F, sum(one.num for one in rows))


def one_row(values: Sequence[float]) -> Rows:
    """Returns columns of one row each."""
    return Rows(tf.constant(values, tf.float32), tf.ones([len(values)], tf.int64), len(values))


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


def stacked(columns: Sequence[tf.SparseTensor]) -> Values:
    """Returns columns of one type, one behind the other."""
    sizes_F = tf.stack(tf.shape_n([column.values for column in columns], tf.int64))[:, 0]
    indices = tf.concat([column.indices for column in columns], 0)
    return Values(
        values_n=tf.concat([column.values for column in columns], 0),
        row_n=indices[:, 0],
        position_n=indices[:, 1],
        sizes_F=sizes_F,
        rows_F=tf.stack([column.dense_shape for column in columns])[:, 0],
        num=len(columns),
    )


def stacked_texts(columns: Sequence[tf.SparseTensor]) -> Values:
    """Returns ids as texts, one column behind the other: strings, then integers, then floats.

    A float counts by its value to six decimals.
    """
    order = [tf.string, tf.int64, tf.float32]
    of_types = [[column for column in columns if column.dtype == dtype] for dtype in order]
    if [column for of_type in of_types for column in of_type] != list(columns):
        raise ValueError("columns of strings come before those of integers, and these before floats")
    texts = [_as_texts(stacked(of_type)) for of_type in of_types if of_type]
    return Values(
        values_n=tf.concat([text.values_n for text in texts], 0),
        row_n=tf.concat([text.row_n for text in texts], 0),
        position_n=tf.concat([text.position_n for text in texts], 0),
        sizes_F=tf.concat([text.sizes_F for text in texts], 0),
        rows_F=tf.concat([text.rows_F for text in texts], 0),
        num=len(columns),
    )


def _as_texts(values: Values) -> Values:
    values_n = values.values_n
    if values_n.dtype == tf.string:
        return values
    if values_n.dtype == tf.float32:
        values_n += 0.0  # -0.0 becomes 0.0, which it equals.
    return replace(values, values_n=tf.strings.as_string(values_n))
