"""The columns of a request, those of a type in one tensor, without missing values, as Transform's code takes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from sangam.schemas.derived.rank_inputs import LENGTH, input_names
from sangam.schemas.parts.columns import Column
from sangam.trainer_module.dense.split import Requests
from sangam.trainer_module.serving.missing import is_given, parallel, without_missing
from sangam.trainer_module.transforms.ranges import numbers_of, ranges
from sangam.trainer_module.transforms.stacked import (
    InStack,
    Logged,
    Slots,
    Stack,
    Values,
    of_lists,
    side_by_side,
)

# Shape suffixes: F columns side by side; R rows of all of them, 1 or as many as candidates each; n values.


def repeated_columns_of(
    columns: Mapping[str, Column], inputs: Mapping[str, tf.Tensor], requests: Requests
) -> dict[str, Logged]:
    """Returns `columns_of` some of the columns, of several requests with a row for each candidate."""
    names = [f"{name}{end}" for name in input_names(columns.values()).values() for end in ("", LENGTH)]
    return columns_of(columns, {name: requests.for_each_row(inputs[name]) for name in names if name in inputs})


def columns_of(columns: Mapping[str, Column], inputs: Mapping[str, tf.Tensor]) -> dict[str, Logged]:
    """Returns the columns of the inputs of `rank`, each with its own number of rows, without missing values."""
    names = input_names(columns.values())
    lone = {name for group in parallel(columns, list(columns)) if len(group) == 1 for name in group}
    found: dict[str, Logged] = {}
    apart: dict[str, Column] = {}
    of_stacks: dict[tuple[str, bool], list[str]] = {}
    for name, column in columns.items():
        if column.length is None and name in lone:
            of_stacks.setdefault((column.type, column.is_list), []).append(name)
        else:
            apart[name] = column
    for (_, is_list), members in of_stacks.items():
        given = [inputs[names[name]] for name in members]
        lengths = [inputs[names[name] + LENGTH] for name in members] if is_list else []
        stack: Stack = _Lists(given, lengths) if is_list else _Scalars(given)
        found |= {name: InStack(stack, number, given[number].dtype) for number, name in enumerate(members)}
    if apart:
        found |= without_missing(apart, _lists_apart(apart, names, inputs))
    return found


def _lists_apart(
    columns: Mapping[str, Column], names: Mapping[str, str], inputs: Mapping[str, tf.Tensor]
) -> dict[str, tf.SparseTensor]:
    """Returns lists in the form of parsed tf.Examples, with missing values."""
    found: dict[str, tf.SparseTensor] = {}
    for kind in dict.fromkeys(column.type for column in columns.values()):
        of_kind = [name for name, column in columns.items() if column.type == kind]
        padded = [inputs[names[name]] for name in of_kind]
        values = _stacked_lists(padded, [inputs[names[name] + LENGTH] for name in of_kind])
        found |= zip(of_kind, values.columns(tf.shape_n(padded, tf.int64)), strict=True)
    return found


@dataclass(frozen=True, eq=False)
class _Scalars:
    """Columns of one type with one value for each row, which may be `MISSING`."""

    parts: Sequence[tf.Tensor]

    def stacked(self, numbers: Sequence[int]) -> Values:
        """See `Stack`."""
        rows = side_by_side([self.parts[number] for number in numbers])
        row_n = ranges(tf.zeros_like(rows.rows_F), rows.rows_F)
        return Slots(
            values_n=rows.values_R,
            row_n=row_n,
            position_n=tf.zeros_like(row_n),
            sizes_F=rows.rows_F,
            rows_F=rows.rows_F,
            num=rows.num,
            is_given_n=is_given(rows.values_R),
        )

    def sparse(self, number: int) -> tf.SparseTensor:
        """See `Stack`."""
        values_R = self.parts[number]
        row_n = tf.where(is_given(values_R))
        shape = tf.stack([tf.size(values_R, tf.int64), 1])
        return tf.SparseTensor(tf.pad(row_n, [[0, 0], [0, 1]]), tf.gather(values_R, row_n[:, 0]), shape)


@dataclass(frozen=True, eq=False)
class _Lists:
    """Columns of one type with a padded list for each row, whose values may be `MISSING`."""

    padded: Sequence[tf.Tensor]
    lengths: Sequence[tf.Tensor]

    def stacked(self, numbers: Sequence[int]) -> Values:
        """See `Stack`."""
        values = _stacked_lists(*([each[number] for number in numbers] for each in (self.padded, self.lengths)))
        given_n, lengths_R = is_given(values.values_n), values.lengths_R()

        def given_alone() -> tuple[tf.Tensor, tf.Tensor]:
            ones_n = tf.cast(given_n, tf.int64)
            given_R = tf.math.unsorted_segment_sum(ones_n, values.row_of_all_n(), tf.size(lengths_R))
            return tf.boolean_mask(values.values_n, given_n), given_R

        all_given = tf.reduce_all(given_n)
        values_n, lengths_R = tf.cond(all_given, lambda: (values.values_n, lengths_R), given_alone)
        return of_lists(values_n, lengths_R, values.rows_F, values.num)

    def sparse(self, number: int) -> tf.SparseTensor:
        """See `Stack`."""
        values = self.stacked([number])
        indices = tf.stack([values.row_n, values.position_n], 1)
        return tf.SparseTensor(indices, values.values_n, tf.shape(self.padded[number], tf.int64))


def _stacked_lists(padded: Sequence[tf.Tensor], lengths: Sequence[tf.Tensor]) -> Values:
    """Returns lists without what pads them."""
    shapes_F2 = tf.stack(tf.shape_n(padded, tf.int64))
    rows_F, lengths_R = shapes_F2[:, 0], tf.concat(lengths, 0)
    start_R = tf.cumsum(tf.gather(shapes_F2[:, 1], numbers_of(rows_F)), exclusive=True)
    flat = tf.concat([tf.reshape(values, [-1]) for values in padded], 0)
    return of_lists(tf.gather(flat, ranges(start_R, start_R + lengths_R)), lengths_R, rows_F, len(padded))
