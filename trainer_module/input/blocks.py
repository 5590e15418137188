"""Rows of blocks, which schemas/contracts/example_files.py describes, as tensors.

However many columns there are, those of one type are two tensors: the number of operations does not grow with them,
except for one that puts all columns together and one that takes them apart.
"""

from collections.abc import Mapping

import tensorflow as tf

from sangam.schemas.contracts.example_files import COMPRESSION, lengths_of, values_of

# Shape suffixes: W blocks; F columns of one type; n rows; v values; B rows of a batch.

Rows = dict[str, tuple[tf.Tensor, tf.Tensor]]
"""Values of all rows, column after column, [v], and the number of values of each row, [F, n], by type."""
Joined = dict[str, tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]]
"""By type, the values of two groups of rows; where each row of each column begins, in one column of the first group
after another, then of the second; by row, its number in the first column, and how far it is to the next one."""


class Table:
    """Columns, and their rows as tensors.

    Attributes:
        names: names of the columns of each type, sorted.
    """

    def __init__(self, types: Mapping[str, tf.DType]):
        """Takes each column's type."""
        self.names: dict[str, tuple[str, ...]] = {
            kind.name: tuple(sorted(name for name, other in types.items() if other == kind))
            for kind in sorted(set(types.values()), key=lambda kind: str(kind.name))
        }

    def spec(self) -> dict[str, tuple[tf.TensorSpec, tf.TensorSpec]]:
        """Returns the tensors of any number of rows."""
        return {
            kind: (tf.TensorSpec([None], kind), tf.TensorSpec([len(names), None], tf.int64))
            for kind, names in self.names.items()
        }

    def empty(self) -> Rows:
        """Returns no rows."""
        return {kind: (tf.zeros([0], kind), tf.zeros([len(names), 0], tf.int64)) for kind, names in self.names.items()}

    def decode(self, blocks_W: tf.Tensor) -> Rows:
        """Returns the rows of compressed blocks, one block after another."""
        return self.parse(tf.io.decode_compressed(blocks_W, COMPRESSION))

    def parse(self, blocks_W: tf.Tensor) -> Rows:
        """Returns the rows of decompressed blocks, one block after another."""
        columns = [(name, kind) for kind, names in self.names.items() for name in names]
        keys = [values_of(name) for name, _ in columns] + [lengths_of(name) for name, _ in columns]
        types = [tf.as_dtype(kind) for _, kind in columns] + [tf.int64] * len(columns)
        parsed = tf.raw_ops.ParseExampleV2(
            serialized=blocks_W,
            names=tf.zeros([0], tf.string),
            sparse_keys=tf.zeros([0], tf.string),
            dense_keys=tf.zeros([0], tf.string),
            ragged_keys=tf.constant(keys),
            dense_defaults=[],
            num_sparse=0,
            sparse_types=[],
            ragged_value_types=types,
            ragged_split_types=[tf.int64] * len(types),
            dense_shapes=[],
        ).ragged_values
        rows, start = {}, 0
        for kind, names in self.names.items():
            of_kind = slice(start, start + len(names))
            lengths = parsed[len(columns) :][of_kind]
            # A column that is not in the blocks has no lengths, which do not stack with those of others.
            rows[kind] = (tf.concat(parsed[of_kind], 0), tf.stack(lengths))
            start += len(names)
        return rows

    def join(self, first: Rows, second: Rows, order: tf.Tensor) -> Joined:
        """Returns two groups of rows as one; only their values are put together, not the columns.

        Args:
            first: rows that come first, unchanged.
            second: come next.
            order: numbers of its taken rows, in their order.
        """
        n, m = num_rows(first), num_rows(second)
        stride = tf.concat([tf.fill([n], n), tf.fill(tf.shape(order), m)], 0)
        joined = {}
        for kind, names in self.names.items():
            lengths = tf.concat([tf.reshape(rows[kind][1], [-1]) for rows in (first, second)], 0)
            place = tf.concat([tf.range(n), len(names) * n + order], 0)
            values = tf.concat([first[kind][0], second[kind][0]], 0)
            joined[kind] = values, tf.pad(tf.cumsum(lengths), [[1, 0]]), place, stride
        return joined

    def reordered(self, joined: Joined, order: tf.Tensor) -> Joined:
        """Returns joined rows in another order."""
        return {
            kind: (values, splits, tf.gather(place, order), tf.gather(stride, order))
            for kind, (values, splits, place, stride) in joined.items()
        }

    def take(self, joined: Joined, start: tf.Tensor, end: tf.Tensor) -> Rows:
        """Returns the rows from `start` up to `end`."""
        rows: Rows = {}
        for kind, names in self.names.items():
            values, splits, place, stride = joined[kind]
            column_F = tf.range(len(names), dtype=tf.int64)
            index = tf.reshape(place[start:end] + column_F[:, None] * stride[start:end], [-1])
            starts, limits = tf.gather(splits, index), tf.gather(splits, index + 1)
            lengths_FB = tf.reshape(limits - starts, tf.stack([len(names), end - start]))
            rows[kind] = tf.gather(values, _ranges(starts, limits)), tf.ensure_shape(lengths_FB, [len(names), None])
        return rows

    def sparse(self, rows: Rows) -> dict[str, tf.SparseTensor]:
        """Returns the columns as `tf.io.parse_example` would return them for features of varying length."""
        columns: dict[str, tf.SparseTensor] = {}
        for kind, names in self.names.items():
            values, lengths_Fn = rows[kind]
            num_rows = tf.shape(lengths_Fn, tf.int64)[1]
            flat = tf.reshape(lengths_Fn, [-1])
            row_v = tf.math.floormod(_rows_of_values(flat), tf.maximum(num_rows, 1))
            place_v = _ranges(tf.zeros_like(flat), flat)
            sizes = tf.reduce_sum(lengths_Fn, 1)
            widths = tf.reduce_max(tf.pad(lengths_Fn, [[0, 0], [0, 1]]), 1)
            shapes = tf.unstack(tf.stack([tf.fill([len(names)], num_rows), widths], 1), len(names))
            indices = tf.split(tf.stack([row_v, place_v], 1), sizes, num=len(names))
            parts = tf.split(values, sizes, num=len(names))
            columns |= {
                name: tf.SparseTensor(*column) for name, *column in zip(names, indices, parts, shapes, strict=True)
            }
        return columns

    def ragged(self, rows: Rows) -> dict[str, tf.RaggedTensor]:
        """Returns the columns as lists."""
        columns: dict[str, tf.RaggedTensor] = {}
        for kind, names in self.names.items():
            values, lengths_Fn = rows[kind]
            parts = tf.split(values, tf.reduce_sum(lengths_Fn, 1), num=len(names))
            splits = tf.unstack(tf.pad(tf.cumsum(lengths_Fn, 1), [[0, 0], [1, 0]]), len(names))
            columns |= {
                name: tf.RaggedTensor.from_row_splits(part, of_column, validate=False)
                for name, part, of_column in zip(names, parts, splits, strict=True)
            }
        return columns


def num_rows(rows: Rows) -> tf.Tensor:
    """Returns the number of rows, int64 scalar."""
    _, lengths_Fn = next(iter(rows.values()))
    return tf.shape(lengths_Fn, tf.int64)[1]


def _ranges(starts: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """Returns the numbers of each range, one range after another."""
    one = tf.constant(1, tf.int64)
    ranges = tf.raw_ops.RaggedRange(starts=starts, limits=limits, deltas=one, Tsplits=tf.int64)
    return ranges.rt_dense_values


def _rows_of_values(lengths: tf.Tensor) -> tf.Tensor:
    """Returns the row of each value: [v]."""
    splits = tf.pad(tf.cumsum(lengths), [[1, 0]])
    # A row begins at each split: as many as there are up to a value, so many rows are before it.
    begin_v = tf.math.unsorted_segment_sum(tf.ones_like(lengths), splits[:-1], splits[-1] + 1)
    return tf.cumsum(begin_v[:-1]) - 1
