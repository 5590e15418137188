"""Columns of lists: of any length, of fixed length (vectors), and parallel lists (weights of ids, events)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.readers.column_types import TARGET
from sangam.components.logs.readers.lists import lengths_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column

Places = int | NDArray[np.int64]
"""Index in its file of a batch's first row, or of each of its rows."""


@dataclass(frozen=True)
class Lists:
    """A column of lists.

    Attributes:
        values: values of all rows, concatenated; null: missing.
        lengths: lengths of each row's list, including nulls.
    """

    values: pa.Array
    lengths: NDArray[np.int64]

    @property
    def is_valid(self) -> NDArray[np.bool_]:
        """Whether each value is present."""
        return np.asarray(self.values.is_valid(), dtype=bool)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each value."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def within(self, length: int, last_values: int) -> NDArray[np.bool_]:
        """Returns whether each value stays in lists of at most `length`: the first ones, and the `last_values` last."""
        positions = np.arange(len(self.values)) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        ends = np.repeat(self.lengths, self.lengths)
        return (ends <= length) | (positions < length - last_values) | (positions >= ends - last_values)


def read_lists(
    array: pa.Array, column: Column, ignored: Counter[str], values_of: Callable[[pa.Array], pa.Array]
) -> Lists:
    """Reads a column's lists; a null list is empty, and nulls in lists are counted.

    Args:
        array: array of lists.
        column: column in the spec.
        ignored: counts to add to.
        values_of: converts values to int64, float32 or binary.
    """
    if pa.types.is_null(array.type):
        array = pa.nulls(len(array), pa.list_(TARGET[column.type]))
    flat = array.flatten()
    if flat.null_count:
        ignored[f"null in list: {column.name}"] += flat.null_count
    return Lists(values_of(flat), lengths_of(array))


def list_arrays(
    lists: Mapping[str, Lists],
    columns: Sequence[Column],
    path: str,
    first_row: Places,
    *,
    max_length: int | None,
    ignored: Counter[str],
) -> dict[str, pa.Array]:
    """Returns the lists to write, by column: without nulls, which tfx_bsl would write as zeros.

    A value that is null or cut off in one of several parallel lists is left out of all of them. A vector with a null is
    missing as a whole.

    Args:
        lists: lists of every list column, by name.
        columns: the list columns in the spec.
        path: path of the file, for error texts.
        first_row: index in the file of the batch's first row, or of each of its rows, for error texts.
        max_length: maximum length of lists that are not vectors; None: unlimited.
        ignored: counts of cut off values, to add to.

    Raises:
        UserError: for a vector of a wrong length, and for parallel lists of different lengths.
    """
    keep = {name: each.is_valid for name, each in lists.items()}
    pairs = [(column.name, other) for column in columns for other in column.beside]
    for first, second in pairs:
        _require_same_lengths(lists, first, second, path, first_row)
    if max_length is not None:
        for name, is_within in _within(lists, columns, pairs, max_length).items():
            if cut := int(np.count_nonzero(~is_within)):
                ignored[f"over max_list_length: {name}"] += cut
            keep[name] &= is_within
    for _ in pairs:  # A null may pass along a chain of all pairs.
        for first, second in pairs:
            keep[first] = keep[second] = keep[first] & keep[second]
    arrays = {}
    for column in columns:
        column_lists = lists[column.name]
        if column.length is None:
            arrays[column.name] = _list_array(column_lists, keep[column.name])
        else:
            arrays[column.name] = _vectors(column_lists, column, column.length, path, first_row)
    return arrays


def _within(
    lists: Mapping[str, Lists], columns: Sequence[Column], pairs: Sequence[tuple[str, str]], max_length: int
) -> dict[str, NDArray[np.bool_]]:
    """Returns whether each value stays, by column: the same ones in parallel lists."""
    last = {column.name: column.last_values for column in columns if column.length is None}
    for _ in pairs:
        for first, second in pairs:
            last[first] = last[second] = max(last[first], last[second])
    return {name: lists[name].within(max_length, values) for name, values in last.items()}


def _list_array(lists: Lists, keep: NDArray[np.bool_]) -> pa.Array:
    lengths, values = lists.lengths, lists.values
    if not keep.all():
        lengths = np.bincount(lists.rows[keep], minlength=len(lengths))
        values = values.filter(pa.array(keep))
    return pa.ListArray.from_arrays(pa.array(_offsets(lengths), pa.int32()), values)


def _vectors(lists: Lists, column: Column, length: int, path: str, first_row: Places) -> pa.Array:
    wrong = np.flatnonzero((lists.lengths != length) & (lists.lengths != 0))
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{path}: column '{column.name}': wrong length in row {_number(first_row, row)} (got {lists.lengths[row]} "
            f"floats); {length}, as in dim, or none"
        )
    is_missing = lists.lengths == 0
    is_missing[lists.rows[~lists.is_valid]] = True
    values = lists.values.filter(pa.array(~is_missing[lists.rows], pa.bool_()))
    offsets = _offsets(np.where(is_missing, 0, length))
    nulls = np.concatenate([is_missing, [False]])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=nulls), values)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)])


def _require_same_lengths(lists: Mapping[str, Lists], first: str, second: str, path: str, first_row: Places) -> None:
    sides = lists[first].lengths, lists[second].lengths
    wrong = np.flatnonzero(sides[0] != sides[1])
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{path}: column '{first}': is not as long as column '{second}' in row {_number(first_row, row)} (got "
            f"{sides[0][row]} and {sides[1][row]} values); log one value for each id"
        )


def _number(first_row: Places, row: int) -> int:
    return 1 + (first_row + row if isinstance(first_row, int) else int(first_row[row]))
