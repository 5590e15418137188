"""Columns of many features, one after another, so that the number of operations does not grow with the features.

In training every column has as many rows as the batch. In a request a column has one row or one for each candidate, so
that the number of rows of each is kept. A column becomes a tensor of its own only where one is read by itself: of
thousands, each costs several operations and a copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

from sangam.trainer_module.transforms.ranges import numbers_of, ranges, repeated

# Shape suffixes: F features, each with one column; n values of all columns; R rows of all columns; B batch in training.


@dataclass(frozen=True)
class Rows:
    """One value for each row of every column.

    Attributes:
        values_R: column after column.
        rows_F: int64, of each column.
        num: number of columns.
        rows: number of rows of every column; None where they may differ.
    """

    values_R: tf.Tensor
    rows_F: tf.Tensor
    num: int
    rows: tf.Tensor | None = None

    def feature_R(self) -> tf.Tensor:
        """Returns the number of each row's column: int32."""
        return self._feature_R

    @cached_property
    def _feature_R(self) -> tf.Tensor:
        if self.rows is not None:
            return self.in_rows(tf.range(self.num))
        return tf.cast(numbers_of(self.rows_F), tf.int32)

    def in_rows(self, of_columns_F: tf.Tensor) -> tf.Tensor:
        """Returns what is given for each column, for each of its rows: [R]."""
        if self.rows is None:
            return tf.gather(of_columns_F, self.feature_R())
        shape = tf.stack([tf.constant(self.num, tf.int64), self.rows])
        return tf.reshape(tf.broadcast_to(of_columns_F[:, None], shape), [-1])

    def each(self, of_columns: Sequence[float | bool]) -> tf.Tensor:
        """Returns what is given for each column, for each of its rows: [R], or a scalar where all are alike."""
        dtype = tf.bool if isinstance(of_columns[0], bool) else tf.float32
        # By their texts: NaN is not equal to itself.
        if len(set(map(repr, of_columns))) == 1:
            return tf.constant(of_columns[0], dtype)
        return self.in_rows(tf.constant(of_columns, dtype))

    def with_values(self, values_R: tf.Tensor) -> "Rows":
        """Returns other values of the same rows."""
        return replace(self, values_R=values_R)

    def parts(self) -> list[tf.Tensor]:
        """Returns the values of each column: [rows]."""
        return list(self._parts)

    @cached_property
    def _parts(self) -> list[tf.Tensor]:
        return list(tf.split(self.values_R, self.rows_F, num=self.num))

    def columns(self) -> list["Column"]:
        """Returns each column, not yet taken out."""
        return [Column(self, number) for number in range(self.num)]


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
        lengths_FB: int64, values of each row, where all columns have as many rows; None where they may differ.
        all_row_n: `row_of_all_n` where it is known.
        known_lengths_R: `lengths_R` where it is known, and positions are from 0 on.
    """

    values_n: tf.Tensor
    row_n: tf.Tensor
    position_n: tf.Tensor
    sizes_F: tf.Tensor
    rows_F: tf.Tensor
    num: int
    lengths_FB: tf.Tensor | None = None
    all_row_n: tf.Tensor | None = None
    known_lengths_R: tf.Tensor | None = None

    def feature_n(self) -> tf.Tensor:
        """Returns the number of each value's column: int32."""
        return self._feature_n

    @cached_property
    def _feature_n(self) -> tf.Tensor:
        return tf.cast(numbers_of(self.sizes_F), tf.int32)

    def in_values(self, of_columns: Sequence[int]) -> tf.Tensor:
        """Returns a number from 0 to 2^31 that is given for each column, for each of its values: int64 [n]."""
        return repeated(tf.constant(of_columns, tf.int64), self.sizes_F)

    def row_of_all_n(self) -> tf.Tensor:
        """Returns the number of each value's row among the rows of all columns."""
        if self.all_row_n is not None:
            return self.all_row_n
        return self.row_n + tf.gather(tf.cumsum(self.rows_F, exclusive=True), self.feature_n())

    def lengths_R(self) -> tf.Tensor:
        """Returns the number of values of each row of all columns, int64."""
        if self.lengths_FB is not None:
            return tf.reshape(self.lengths_FB, [-1])
        if self.known_lengths_R is not None:
            return self.known_lengths_R
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
            lengths_FB=None,
            known_lengths_R=None,
            all_row_n=None if self.all_row_n is None else tf.gather(self.all_row_n, kept),
        )

    def first(self, most_F: Sequence[int]) -> "Values":
        """Returns the first values of each row, as many as are given for each column."""
        if self.known_lengths_R is None:
            return self.only(self.position_n < self.in_values(most_F))
        lengths_R, most_R = self.known_lengths_R, repeated(tf.constant(most_F, tf.int64), self.rows_F)
        start_R = tf.cumsum(lengths_R, exclusive=True)
        kept_R = tf.minimum(lengths_R, most_R)

        def cut() -> tf.Tensor:
            return tf.gather(self.values_n, ranges(start_R, start_R + kept_R))

        is_cut = tf.reduce_any(lengths_R > most_R)
        return of_lists(tf.cond(is_cut, cut, lambda: self.values_n), kept_R, self.rows_F, self.num)

    def moved_up(self) -> "Values":
        """Returns the values of each row, which are in order, at positions from 0 on."""
        row_n = self.row_of_all_n()
        first_n = tf.searchsorted(row_n, row_n, out_type=tf.int64)
        return replace(self, position_n=tf.range(tf.size(row_n, tf.int64)) - first_n)

    def lists(self, numbers: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns some columns, which have as many rows each: their values in turn, and lengths: [v], [F, B]."""
        lengths_FB = tf.reshape(self.lengths_R(), [self.num, -1])
        if list(numbers) == list(range(self.num)):
            return self.values_n, lengths_FB
        columns = tf.RaggedTensor.from_row_lengths(self.values_n, self.sizes_F, validate=False)
        return tf.gather(columns, numbers).flat_values, tf.gather(lengths_FB, numbers)

    @cached_property
    def parts(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Indices and values of each column."""
        indices = tf.split(tf.stack([self.row_n, self.position_n], 1), self.sizes_F, num=self.num)
        return list(zip(indices, tf.split(self.values_n, self.sizes_F, num=self.num), strict=True))

    @cached_property
    def ragged_parts(self) -> list[tf.RaggedTensor]:
        """Each column as lists."""
        values = tf.split(self.values_n, self.sizes_F, num=self.num) if self.num > 1 else [self.values_n]
        lengths = Rows(self.lengths_R(), self.rows_F, self.num).parts()
        return [tf.RaggedTensor.from_row_lengths(*part, validate=False) for part in zip(values, lengths, strict=True)]

    def columns(self, shapes: Sequence[tf.Tensor]) -> list[tf.SparseTensor]:
        """Returns the columns as SparseTensors of these shapes."""
        return [tf.SparseTensor(*part, shape) for part, shape in zip(self.parts, shapes, strict=True)]

    def one_each(self, default: Any) -> Rows:
        """Returns the one value of each row, or the default.

        Raises:
            InvalidArgumentError: by the graph, for a row with several values.
        """
        if self.lengths_FB is not None:
            return self._one_of_lengths(self.lengths_FB, default)
        total = tf.reduce_sum(self.rows_F)
        flat = tf.SparseTensor(self.row_of_all_n()[:, None], self.values_n, total[None])
        return Rows(tf.sparse.to_dense(flat, default), self.rows_F, self.num)

    def _one_of_lengths(self, lengths_FB: tf.Tensor, default: Any) -> Rows:
        length_R = self.lengths_R()
        is_one = tf.debugging.Assert(tf.reduce_all(length_R <= 1), ["a row of a column of one value has several"])
        with tf.control_dependencies([is_one]):
            number_R = tf.cumsum(length_R) * length_R
        with_default = tf.concat([tf.convert_to_tensor(default, self.values_n.dtype)[None], self.values_n], 0)
        rows = tf.shape(lengths_FB, tf.int64)[1]
        return Rows(tf.gather(with_default, number_R), self.rows_F, self.num, rows)


@dataclass(frozen=True)
class Slots(Values):
    """Columns of one value at most: each row has a slot, with anything in it where there is no value.

    Attributes:
        is_given_n: whether a slot has a value.
    """

    is_given_n: tf.Tensor | None = None

    def one_each(self, default: Any) -> Rows:
        """See `Values`."""
        given_or = tf.where(self.is_given_n, self.values_n, tf.convert_to_tensor(default, self.values_n.dtype))
        return Rows(given_or, self.rows_F, self.num)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of `rows`, among those of the same rows."""

    rows: Rows
    number: int

    def tensor(self) -> tf.Tensor:
        """Returns its values: [rows]."""
        return self.rows.parts()[self.number]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two columns side by side."""

    both: tuple[Column, Column]

    def tensor(self) -> tf.Tensor:
        """Returns their values: [rows, 2]."""
        return tf.stack([column.tensor() for column in self.both], 1)


@dataclass(frozen=True, eq=False)
class ListColumn:
    """One column of lists among `values`, as wide as a column of the logs."""

    values: Values
    number: int
    of: "tf.SparseTensor | InStack"

    def tensor(self) -> tf.SparseTensor:
        """Returns its values."""
        return tf.SparseTensor(*self.values.parts[self.number], self.of.dense_shape)

    def ragged(self) -> tf.RaggedTensor:
        """Returns its values, however wide its column is."""
        return self.values.ragged_parts[self.number]


Made: TypeAlias = tf.Tensor | tf.SparseTensor | Column | Pair | ListColumn
"""An output of Transform."""


def taken_out(outputs: Mapping[str, Made]) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Returns each output as a tensor of its own."""
    return {
        name: made.tensor() if isinstance(made, Column | Pair | ListColumn) else made for name, made in outputs.items()
    }


def beside(columns: Sequence[Column]) -> tf.Tensor:
    """Returns columns of equally many rows side by side: [rows, columns]."""
    stacks = list({id(column.rows): column.rows for column in columns}.values())
    whole = tf.concat([tf.reshape(rows.values_R, [rows.num, -1]) for rows in stacks], 0)
    first, total = {}, 0
    for rows in stacks:
        first[id(rows)] = total
        total += rows.num
    numbers = [first[id(column.rows)] + column.number for column in columns]
    return tf.transpose(whole if numbers == list(range(total)) else tf.gather(whole, numbers))


class Stack(Protocol):
    """Columns of one type in one tensor."""

    def stacked(self, numbers: Sequence[int]) -> Values:
        """Returns some of them, in this order."""

    def sparse(self, number: int) -> tf.SparseTensor:
        """Returns one of them."""


@dataclass(frozen=True, eq=False)
class InStack:
    """A column of the logs that lies in one tensor with others; like a SparseTensor for who reads it by itself."""

    stack: Stack
    number: int
    dtype: tf.DType

    @cached_property
    def sparse(self) -> tf.SparseTensor:
        """The column by itself."""
        return self.stack.sparse(self.number)

    @property
    def indices(self) -> tf.Tensor:
        """[n, 2], row and position."""
        return self.sparse.indices

    @property
    def values(self) -> tf.Tensor:
        """[n]."""
        return self.sparse.values

    @property
    def dense_shape(self) -> tf.Tensor:
        """[2], rows and most values of a row."""
        return self.sparse.dense_shape


Logged: TypeAlias = tf.SparseTensor | InStack
"""A column of the logs."""


def alone(column: Logged) -> tf.SparseTensor:
    """Returns a column of the logs by itself."""
    return column.sparse if isinstance(column, InStack) else column


def of_lists(values_n: tf.Tensor, lengths_R: tf.Tensor, rows_F: tf.Tensor, num: int) -> Values:
    """Returns lists of any lengths, column after column, row after row."""
    all_row_n, feature_R = numbers_of(lengths_R), numbers_of(rows_F)
    first_R = tf.gather(tf.cumsum(rows_F, exclusive=True), feature_R)
    return Values(
        values_n=values_n,
        row_n=all_row_n - tf.gather(first_R, all_row_n),
        position_n=ranges(tf.zeros_like(lengths_R), lengths_R),
        sizes_F=tf.math.unsorted_segment_sum(lengths_R, feature_R, num),
        rows_F=rows_F,
        num=num,
        all_row_n=all_row_n,
        known_lengths_R=lengths_R,
    )


def side_by_side(parts: Sequence[tf.Tensor]) -> Rows:
    """Returns columns that have one value for each row, one behind the other."""
    return Rows(tf.concat(parts, 0), tf.stack(tf.shape_n(parts, tf.int64))[:, 0], len(parts))


def joined(rows: Sequence[Rows]) -> Rows:
    """Returns the columns of all."""
    values_R, rows_F = (
        tf.concat(parts, 0) for parts in zip(*((one.values_R, one.rows_F) for one in rows), strict=True)
    )
    return Rows(values_R, rows_F, sum(one.num for one in rows), rows[0].rows if len(rows) == 1 else None)


def one_row(values: Sequence[float]) -> Rows:
    """Returns columns of one row each."""
    return Rows(tf.constant(values, tf.float32), tf.ones([len(values)], tf.int64), len(values))


def stacked(columns: Sequence[Logged]) -> Values:
    """Returns columns of one type, one behind the other."""
    in_stacks = [column for column in columns if isinstance(column, InStack)]
    if len(in_stacks) == len(columns) and len({id(column.stack) for column in in_stacks}) == 1:
        return in_stacks[0].stack.stacked([column.number for column in in_stacks])
    columns = [alone(column) for column in columns]
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
