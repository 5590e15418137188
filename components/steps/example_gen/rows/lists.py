"""Lists of values: of any length, of one length (vectors), and as long as others beside them (weights of ids)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.steps.example_gen.readers.column_types import TARGET
from schemas.derived.columns import Column
from schemas.errors import UserError


@dataclass(frozen=True)
class Lists:
    """A column of lists.

    Attributes:
        values: of all rows one after the other; null: none.
        lengths: of each row's list, nulls counted.
    """

    values: pa.Array
    lengths: NDArray[np.int64]

    @property
    def is_valid(self) -> NDArray[np.bool_]:
        """Whether each value is there."""
        return np.asarray(self.values.is_valid(), dtype=bool)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each value."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def within(self, length: int, last_values: int) -> NDArray[np.bool_]:
        """Returns whether each value remains in lists of at most `length`: the last ones so many, and the first."""
        places = np.arange(len(self.values)) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        ends = np.repeat(self.lengths, self.lengths)
        return (ends <= length) | (places < length - last_values) | (places >= ends - last_values)


def read_lists(
    array: pa.Array, column: Column, ignored: Counter[str], values_of: Callable[[pa.Array], pa.Array]
) -> Lists:
    """Returns a column's lists; a null list is an empty one, and a null inside is counted.

    Args:
        array: of lists.
        column: the declared one.
        ignored: to count in.
        values_of: makes int64, float32 or binary of the values.
    """
    if pa.types.is_null(array.type):
        array = pa.nulls(len(array), pa.list_(TARGET[column.type]))
    if pa.types.is_fixed_size_list(array.type):
        # Arrow has neither a cast to lists nor a kernel for their lengths.
        lengths = np.asarray(array.is_valid()).astype(np.int64) * array.type.list_size
    else:
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    flat = array.flatten()
    if flat.null_count:
        ignored[f"null in list: {column.name}"] += flat.null_count
    return Lists(values_of(flat), lengths)


def list_arrays(
    lists: Mapping[str, Lists],
    columns: Sequence[Column],
    place: str,
    first_row: int,
    *,
    max_length: int | None,
    ignored: Counter[str],
) -> dict[str, pa.Array]:
    """Returns the lists as they are written, by column: without nulls inside, as tfx_bsl would write zeros for them.

    Of lists side by side, what is null or cut off in one is left out of all. A vector that lacks a value is missing as
    a whole.

    Args:
        lists: of every column of lists, by its name.
        columns: the declared ones of these.
        place: file, for error texts.
        first_row: of the batch, from 0, for error texts.
        max_length: of what is no vector; None: any.
        ignored: to count in what is cut off.

    Raises:
        UserError: for a vector of another length, and lists side by side of different lengths.
    """
    stays = {name: each.is_valid for name, each in lists.items()}
    pairs = [(column.name, other) for column in columns for other in column.beside]
    for first, second in pairs:
        _require_same_lengths(lists, first, second, place, first_row)
    if max_length is not None:
        for name, is_within in _within(lists, columns, pairs, max_length).items():
            if cut := int(np.count_nonzero(~is_within)):
                ignored[f"over max_list_length: {name}"] += cut
            stays[name] &= is_within
    for _ in pairs:  # So often may a null of one list have to be passed on to the next.
        for first, second in pairs:
            stays[first] = stays[second] = stays[first] & stays[second]
    arrays = {}
    for column in columns:
        found = lists[column.name]
        if column.length is None:
            arrays[column.name] = _written(found, stays[column.name])
        else:
            arrays[column.name] = _vectors(found, column, column.length, place, first_row)
    return arrays


def _within(
    lists: Mapping[str, Lists], columns: Sequence[Column], pairs: Sequence[tuple[str, str]], max_length: int
) -> dict[str, NDArray[np.bool_]]:
    """Returns whether each value remains, by column: of lists side by side, the same ones."""
    last = {column.name: column.last_values for column in columns if column.length is None}
    for _ in pairs:
        for first, second in pairs:
            last[first] = last[second] = max(last[first], last[second])
    return {name: lists[name].within(max_length, values) for name, values in last.items()}


def _written(found: Lists, stays: NDArray[np.bool_]) -> pa.Array:
    lengths, values = found.lengths, found.values
    if not stays.all():
        lengths = np.bincount(found.rows[stays], minlength=len(lengths))
        values = values.filter(pa.array(stays))
    return pa.ListArray.from_arrays(pa.array(_offsets(lengths), pa.int32()), values)


def _vectors(found: Lists, column: Column, length: int, place: str, first_row: int) -> pa.Array:
    wrong = np.flatnonzero((found.lengths != length) & (found.lengths != 0))
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{place}: column '{column.name}': wrong length in row {first_row + row + 1} (got {found.lengths[row]} "
            f"floats); {length} as declared by dim, or none"
        )
    is_missing = found.lengths == 0
    is_missing[found.rows[~found.is_valid]] = True
    values = found.values.filter(pa.array(~is_missing[found.rows], pa.bool_()))
    offsets = _offsets(np.where(is_missing, 0, length))
    nulls = np.concatenate([is_missing, [False]])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=nulls), values)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)])


def _require_same_lengths(lists: Mapping[str, Lists], first: str, second: str, place: str, first_row: int) -> None:
    sides = lists[first].lengths, lists[second].lengths
    wrong = np.flatnonzero(sides[0] != sides[1])
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{place}: column '{first}': is not as long as column '{second}' in row {first_row + row + 1} (got "
            f"{sides[0][row]} and {sides[1][row]} values); log one weight for each id"
        )
