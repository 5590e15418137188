"""Converts any reader's record batch to the list columns of tf.Examples, and counts every row and value left out.

tfx_bsl's `RecordBatchToExamples` takes list columns; TFX's own Parquet executor goes row by row and loses zeros
(`if not pyval`, tfx/components/example_gen/custom_executors/parquet_executor.py).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.readers.column_types import TARGET, type_problem
from sangam.components.logs.rows.labels import labels_of, not_binary
from sangam.components.logs.rows.limits import Limits
from sangam.components.logs.rows.lists import Lists, Places, list_arrays, read_lists
from sangam.components.logs.rows.missing import without_missing
from sangam.components.logs.rows.times import TimeCounts, check_times
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column

_INT64_MAX = 2**63 - 1
_UNLIMITED = Limits()


@dataclass(frozen=True)
class Converted:
    """Rows that are ready to be written.

    Attributes:
        batch: one list column of int64, float32 or binary for each column of the inputs; a null list is a missing
            value.
        rows: index of each row in the original batch.
        dropped: rows left out, by reason.
        ignored: values treated as missing, clipped or cut off, by reason and column.
        times: times of each column of times.
    """

    batch: pa.RecordBatch
    rows: NDArray[np.int64]
    dropped: Mapping[str, int]
    ignored: Mapping[str, int]
    times: Mapping[str, TimeCounts]


@dataclass
class _Counts:
    dropped: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    times: dict[str, TimeCounts] = field(default_factory=dict)

    def kept(self, keep: NDArray[np.bool_], wanted: NDArray[np.bool_], reason: str) -> NDArray[np.bool_]:
        """Returns which rows remain. A row that is dropped for several reasons is counted under the first."""
        lost = int(np.count_nonzero(keep & ~wanted))
        if lost:
            self.dropped[reason] += lost
        return keep & wanted


def convert(
    batch: pa.RecordBatch, columns: Sequence[Column], path: str, first_row: Places = 0, limits: Limits = _UNLIMITED
) -> Converted:
    """Converts a batch, and drops rows without a required label or id.

    Args:
        batch: batch with all columns of the inputs, by their names in the logs.
        columns: columns of the inputs.
        path: path of the file, for error texts.
        first_row: index in the file of the batch's first row, or of each of its rows, for error texts.
        limits: limits of the values.

    Raises:
        UserError: for a wrong type, an integer over 64 bits, a binary value other than 0 and 1, a negative number that
            must not be, and a vector or weights of a wrong length.
    """
    counts = _Counts()
    arrays: dict[str, pa.Array] = {}
    scalars: dict[str, pa.Array] = {}
    lists: dict[str, Lists] = {}
    keep = np.ones(batch.num_rows, dtype=bool)
    for column in columns:
        array = batch.column(batch.schema.get_field_index(column.name))
        problem = type_problem(column, array.type)
        if problem:
            raise UserError(f"{path}: column '{column.name}': {problem}")
        values_of = partial(_values, column=column, path=path, counts=counts)
        if column.is_list:
            column_lists = read_lists(array, column, counts.ignored, values_of)
            short, _ = _short_ids(column_lists.values, column, limits, counts)
            lists[column.name] = replace(column_lists, values=_times_of_lists(short, column, limits, counts))
            continue
        values, is_short = _short_ids(values_of(array), column, limits, counts)
        if column.is_required:
            keep = counts.kept(keep, is_short, f"id too long: {column.name}")
        _require_range(values, column, path)
        if column.is_label and not column.is_masked:
            keep = counts.kept(keep, np.asarray(values.is_valid()), f"label missing: {column.name}")
        if column.time in limits.times:
            values, keep = _within_range(values, column, keep, limits, counts)
        scalars[column.name], arrays[column.name] = values, _as_lists(values)
    list_columns = [column for column in columns if column.is_list]
    for column in list_columns:
        if column.not_after in scalars:
            _count_later(lists[column.name], column, scalars[str(column.not_after)], counts)
    arrays |= list_arrays(
        lists, list_columns, path, first_row, max_length=limits.max_list_length, ignored=counts.ignored
    )
    names = [column.name for column in columns]
    converted = pa.RecordBatch.from_arrays([arrays[name] for name in names], names)
    if not keep.all():
        converted = converted.filter(pa.array(keep))
    return Converted(converted, np.flatnonzero(keep), counts.dropped, counts.ignored, counts.times)


def without(converted: Converted, is_left_out: Mapping[str, NDArray[np.bool_]]) -> Converted:
    """Drops more rows.

    Args:
        converted: rows of a batch.
        is_left_out: rows of the original batch to drop, by reason.
    """
    dropped = Counter(converted.dropped)
    keep = np.ones(len(converted.rows), bool)
    for reason, mask in is_left_out.items():
        lost = keep & mask[converted.rows]
        keep &= ~lost
        dropped.update({reason: int(lost.sum())} if lost.any() else {})
    if keep.all():
        return converted
    return replace(converted, batch=converted.batch.filter(pa.array(keep)), rows=converted.rows[keep], dropped=dropped)


def _short_ids(values: pa.Array, column: Column, limits: Limits, counts: _Counts) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Returns the values with null for ids that are too long, and a mask of the others."""
    if column.type != "string" or limits.max_id_bytes is None:
        return values, np.ones(len(values), bool)
    is_long = pc.fill_null(pc.greater(pc.binary_length(values), limits.max_id_bytes), False)
    if pc.any(is_long).as_py():
        if column.is_list or not column.is_required:
            counts.ignored[f"id too long: {column.name}"] += int(pc.sum(is_long).as_py())
        values = pc.if_else(is_long, pa.scalar(None, values.type), values)
    return values, ~np.asarray(is_long)


def _within_range(
    values: pa.Array, column: Column, keep: NDArray[np.bool_], limits: Limits, counts: _Counts
) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Returns the times within their range, and which rows remain."""
    assert column.time is not None
    checked = check_times(values, column, limits.times[column.time])
    counts.times[column.name] = checked.counts
    if limits.drops_rows:
        return values, counts.kept(keep, ~checked.is_outside, f"time outside its range: {column.name}")
    for reason, number in checked.wrong.items():
        counts.ignored[f"time clipped: {reason}"] += number
    return checked.values, keep


def _times_of_lists(values: pa.Array, column: Column, limits: Limits, counts: _Counts) -> pa.Array:
    """Returns times of lists within their range; where rows are dropped for a time, an event with one is missing."""
    if column.time is None or column.time not in limits.times:
        return values
    checked = check_times(values, column, limits.times[column.time])
    counts.times[column.name] = checked.counts
    if not limits.drops_rows:
        for reason, number in checked.wrong.items():
            counts.ignored[f"time clipped: {reason}"] += number
        return checked.values
    if checked.counts.outside:
        counts.ignored[f"time outside its range: {column.name}"] += checked.counts.outside
    return pc.if_else(pa.array(checked.is_outside), pa.scalar(None, pa.int64()), values)


def _count_later(lists: Lists, column: Column, at: pa.Array, counts: _Counts) -> None:
    """Counts events that are later than their row: of age 0 to the model, if they are no leak from the future."""
    is_later = pc.greater(lists.values, at.take(pa.array(lists.rows)))
    if later := int(pc.sum(is_later).as_py() or 0):
        counts.ignored[f"later than '{column.not_after}', so of age 0: {column.name}"] += later


def _require_range(values: pa.Array, column: Column, path: str) -> None:
    if column.is_binary:
        wrong = values.filter(pc.and_(pc.not_equal(values, 0), pc.not_equal(values, 1)))
        if len(wrong):
            raise not_binary(wrong[0].as_py(), column, path)
    if column.is_not_negative:
        wrong = values.filter(pc.less(values, 0))
        if len(wrong):
            raise UserError(
                f"{path}: column '{column.name}': is negative (got {wrong[0].as_py():g}); example weights, times and "
                "labels of a loss of kind log are at least 0: correct the logs"
            )


def _values(array: pa.Array, column: Column, path: str, counts: _Counts) -> pa.Array:
    """Returns the values as int64, float32 or binary, with null where they are missing."""
    target = TARGET[column.type]
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if column.type == "float":
        return _floats(array, column, counts)
    if pa.types.is_floating(array.type):
        return labels_of(array, column, path)
    if column.type == "string" and pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    if column.type == "int" and pa.types.is_uint64(array.type):
        largest = pc.max(array).as_py()
        if largest is not None and largest > _INT64_MAX:
            raise UserError(
                f"{path}: column '{column.name}': too large for a 64-bit signed integer (got {largest}); "
                f"at most {_INT64_MAX}: read its digits, with type: string"
            )
    values = array.cast(target)
    known = without_missing(values)
    # An empty text is not counted: CSV writes a null so.
    if column.type == "int" and known.null_count > values.null_count:
        reason = f"the least 64-bit integer, which stands for none: {column.name}"
        counts.ignored[reason] += known.null_count - values.null_count
    return known


def _floats(array: pa.Array, column: Column, counts: _Counts) -> pa.Array:
    if pa.types.is_float16(array.type):
        # Arrow has no cast from float16.
        valid = np.asarray(array.is_valid())
        array = pa.array(array.to_numpy(zero_copy_only=False).astype(np.float32), mask=~valid)
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    floats = array.cast(pa.float32(), safe=False)
    finite = pc.is_finite(floats)
    num_wrong = int(pc.sum(pc.invert(finite)).as_py() or 0)
    if not num_wrong:
        return floats
    counts.ignored[f"not finite: {column.name}"] += num_wrong
    return pc.if_else(finite, floats, pa.scalar(None, pa.float32()))


def _as_lists(values: pa.Array) -> pa.Array:
    """Turns every value into a list of one, and every null into a null list."""
    valid = np.asarray(values.is_valid())
    offsets = np.concatenate([[0], np.cumsum(valid)])
    nulls = np.concatenate([~valid, [False]])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=nulls), values.drop_null())
