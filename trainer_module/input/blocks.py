"""Rows of blocks, which schemas/contracts/example_files.py describes, as tensors.

However many columns there are, up to 128 of one type are two tensors: the number of operations hardly grows with them,
except for one that puts all columns together and one that takes them apart. With more of them, the memory of a window's
operations would go back to the kernel after each, and come back cleared.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from sangam.schemas.contracts.example_files import COMPRESSION, lengths_of, values_of
from sangam.trainer_module.transforms.ranges import ranges
from sangam.trainer_module.transforms.stacked import InStack, Values

# Shape suffixes: W blocks; F columns of one group; n rows; N rows of two groups of rows; v values; B rows of a batch.

Rows = dict[str, tuple[tf.Tensor, tf.Tensor]]
"""Values of all rows, column after column, [v], and the number of values of each row, [F, n], by group of columns."""
Joined = dict[str, tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
"""Values and lengths as of `Rows`, and where each row of each column begins and the last one ends: [F, N + 1]."""
_COLUMNS_AT_ONCE = 128


class Table:
    """Columns, and their rows as tensors.

    Attributes:
        names: names of the columns of each group, in their order.
        kinds: type of each group.
        types: type of each column.
    """

    def __init__(self, types: Mapping[str, tf.DType]):
        """Takes each column's type."""
        self.types = dict(types)
        self.names: dict[str, tuple[str, ...]] = {}
        self.kinds: dict[str, tf.DType] = {}
        for kind in sorted(set(types.values()), key=lambda kind: str(kind.name)):
            of_kind = [name for name, other in types.items() if other == kind]
            for start in range(0, len(of_kind), _COLUMNS_AT_ONCE):
                group = f"{kind.name}_{start // _COLUMNS_AT_ONCE:04d}"
                self.names[group] = tuple(of_kind[start : start + _COLUMNS_AT_ONCE])
                self.kinds[group] = kind

    def spec(self) -> dict[str, tuple[tf.TensorSpec, tf.TensorSpec]]:
        """Returns the tensors of any number of rows."""
        return {
            group: (tf.TensorSpec([None], self.kinds[group]), tf.TensorSpec([len(names), None], tf.int64))
            for group, names in self.names.items()
        }

    def joined_spec(self) -> dict[str, tuple[tf.TensorSpec, tf.TensorSpec, tf.TensorSpec]]:
        """Returns the tensors of any two groups of rows."""
        return {group: (values, lengths, lengths) for group, (values, lengths) in self.spec().items()}

    def empty(self) -> Rows:
        """Returns no rows."""
        return {
            group: (tf.zeros([0], self.kinds[group]), tf.zeros([len(names), 0], tf.int64))
            for group, names in self.names.items()
        }

    def decode(self, blocks_W: tf.Tensor) -> Rows:
        """Returns the rows of compressed blocks, one block after another."""
        return self.parse(tf.io.decode_compressed(blocks_W, COMPRESSION))

    def parse(self, blocks_W: tf.Tensor) -> Rows:
        """Returns the rows of decompressed blocks, one block after another."""
        columns = [(name, self.kinds[group]) for group, names in self.names.items() for name in names]
        keys = [values_of(name) for name, _ in columns] + [lengths_of(name) for name, _ in columns]
        types = [kind for _, kind in columns] + [tf.int64] * len(columns)
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
        for group, names in self.names.items():
            of_group = slice(start, start + len(names))
            lengths = parsed[len(columns) :][of_group]
            # A column that is not in the blocks has no lengths, which do not stack with those of others.
            rows[group] = (tf.concat(parsed[of_group], 0), tf.stack(lengths))
            start += len(names)
        return rows

    def join(self, first: Rows, second: Rows, order: tf.Tensor) -> Joined:
        """Returns rows of two groups in an order.

        All values move, column after column: rows in a random order, each taken out of every column only for its batch,
        would come from memory value by value.

        Args:
            first: rows.
            second: rows that follow them.
            order: numbers of the taken rows among both.
        """
        joined = {}
        for group in self.names:
            (values, lengths), (of_second, lengths_of_second) = first[group], second[group]
            begins = [_begins(lengths), _begins(lengths_of_second) + tf.size(values, tf.int64)]
            lengths_FN = tf.gather(tf.concat([lengths, lengths_of_second], 1), order, axis=1)
            begin_FN = tf.gather(tf.concat(begins, 1), order, axis=1)
            index = ranges(tf.reshape(begin_FN, [-1]), tf.reshape(begin_FN + lengths_FN, [-1]))
            ordered = tf.gather(tf.concat([values, of_second], 0), index)
            joined[group] = ordered, lengths_FN, _begins(tf.pad(lengths_FN, [[0, 0], [0, 1]]))
        return joined

    def take(self, joined: Joined, start: tf.Tensor, end: tf.Tensor) -> Rows:
        """Returns the rows from `start` up to `end`."""
        return {
            group: (tf.gather(values, ranges(begin_FN[:, start], begin_FN[:, end])), lengths_FN[:, start:end])
            for group, (values, lengths_FN, begin_FN) in joined.items()
        }

    def columns(self, rows: Rows) -> dict[str, InStack]:
        """Returns the columns, those of a type in one tensor; those next to one another are chosen without a copy."""
        columns: dict[str, InStack] = {}
        for kind in dict.fromkeys(self.kinds.values()):
            groups = [group for group, other in self.kinds.items() if other == kind]
            stack = _Stack(*(tf.concat(parts, 0) for parts in zip(*(rows[group] for group in groups), strict=True)))
            names = [name for group in groups for name in self.names[group]]
            columns |= {name: InStack(stack, number, kind) for number, name in enumerate(names)}
        return columns

    def sparse(self, rows: Rows) -> dict[str, tf.SparseTensor]:
        """Returns the columns as `tf.io.parse_example` would return them for features of varying length."""
        columns: dict[str, tf.SparseTensor] = {}
        for group, names in self.names.items():
            values, lengths_Fn = rows[group]
            num_rows = tf.shape(lengths_Fn, tf.int64)[1]
            flat = tf.reshape(lengths_Fn, [-1])
            row_v = tf.math.floormod(_rows_of_values(flat), tf.maximum(num_rows, 1))
            place_v = ranges(tf.zeros_like(flat), flat)
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
        for group, names in self.names.items():
            values, lengths_Fn = rows[group]
            parts = tf.split(values, tf.reduce_sum(lengths_Fn, 1), num=len(names))
            splits = tf.unstack(tf.pad(tf.cumsum(lengths_Fn, 1), [[0, 0], [1, 0]]), len(names))
            columns |= {
                name: tf.RaggedTensor.from_row_splits(part, of_column, validate=False)
                for name, part, of_column in zip(names, parts, splits, strict=True)
            }
        return columns


class _Stack:
    """All columns of one type."""

    def __init__(self, values: tf.Tensor, lengths_Fn: tf.Tensor):
        self._values, self._lengths_Fn = values, lengths_Fn

    def stacked(self, numbers: Sequence[int]) -> Values:
        first, num = numbers[0], len(numbers)
        if list(numbers) == list(range(first, first + num)):
            lengths_FB = self._lengths_Fn[first : first + num]
            start = tf.reduce_sum(self._lengths_Fn[:first])
            values = self._values[start : start + tf.reduce_sum(lengths_FB)]
        else:
            lengths_FB = tf.gather(self._lengths_Fn, numbers)
            sizes = tf.reduce_sum(self._lengths_Fn, 1)
            lists = tf.RaggedTensor.from_row_lengths(self._values, sizes, validate=False)
            values = tf.gather(lists, numbers).flat_values
        lengths_FB = tf.ensure_shape(lengths_FB, [num, None])
        flat, rows = tf.reshape(lengths_FB, [-1]), tf.shape(lengths_FB, tf.int64)[1]
        row_n = _rows_of_values(flat)
        return Values(
            values_n=values,
            row_n=tf.math.floormod(row_n, tf.maximum(rows, 1)),
            position_n=ranges(tf.zeros_like(flat), flat),
            sizes_F=tf.reduce_sum(lengths_FB, 1),
            rows_F=tf.fill([num], rows),
            num=num,
            lengths_FB=lengths_FB,
            all_row_n=row_n,
        )

    def sparse(self, number: int) -> tf.SparseTensor:
        lengths = self._lengths_Fn[number]
        start, size = tf.reduce_sum(self._lengths_Fn[:number]), tf.reduce_sum(lengths)
        indices = tf.stack([_rows_of_values(lengths), ranges(tf.zeros_like(lengths), lengths)], 1)
        shape = tf.stack([tf.size(lengths, tf.int64), tf.reduce_max(tf.pad(lengths, [[0, 1]]))])
        return tf.SparseTensor(indices, self._values[start : start + size], shape)


def num_rows(rows: Rows) -> tf.Tensor:
    """Returns the number of rows, int64 scalar."""
    _, lengths_Fn = next(iter(rows.values()))
    return tf.shape(lengths_Fn, tf.int64)[1]


def _begins(lengths_Fn: tf.Tensor) -> tf.Tensor:
    """Returns how many values come before those of each row of each column: [F, n]."""
    return tf.reshape(tf.cumsum(tf.reshape(lengths_Fn, [-1]), exclusive=True), tf.shape(lengths_Fn))


def _rows_of_values(lengths: tf.Tensor) -> tf.Tensor:
    """Returns the row of each value: [v]."""
    splits = tf.pad(tf.cumsum(lengths), [[1, 0]])
    # A row begins at each split: as many as there are up to a value, so many rows are before it.
    begin_v = tf.math.unsorted_segment_sum(tf.ones_like(lengths), splits[:-1], splits[-1] + 1)
    return tf.cumsum(begin_v[:-1]) - 1
