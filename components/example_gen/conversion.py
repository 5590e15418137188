"""One way from any reader's record batch to the list columns of tf.Examples, with every row and value accounted for.

tfx_bsl's `RecordBatchToExamples` takes list columns; TFX's own Parquet executor goes row by row and loses zeros
(`if not pyval`, tfx/components/example_gen/custom_executors/parquet_executor.py).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.column_types import TARGET, type_problem
from schemas.columns import Column
from schemas.errors import UserError

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Converted:
    """Rows that are ready to be written.

    Attributes:
        batch: one list column of int64, float32 or binary for each declared column; a null list is a missing value.
        dropped: rows left out, by reason.
        ignored: values taken for missing, by reason and column.
    """

    batch: pa.RecordBatch
    dropped: Mapping[str, int]
    ignored: Mapping[str, int]


@dataclass
class _Counts:
    dropped: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)


def convert(batch: pa.RecordBatch, columns: Sequence[Column], place: str) -> Converted:
    """Converts a batch and drops the rows that lack a label.

    Args:
        batch: all declared columns, by their names in the logs.
        columns: the declared ones.
        place: file, for error texts.

    Raises:
        UserError: for a wrong type, an integer over 64 bits, or a binary label other than 0 and 1.
    """
    counts = _Counts()
    arrays: list[pa.Array] = []
    keep = np.ones(batch.num_rows, dtype=bool)
    for column in columns:
        array = batch.column(batch.schema.get_field_index(column.name))
        problem = type_problem(column, array.type)
        if problem:
            raise UserError(f"{place}: column '{column.name}': {problem}")
        if column.is_list:
            arrays.append(_list_column(array, column, place, counts))
            continue
        values = _values(array, column, place, counts)
        if column.is_label:
            keep = _label_rows(values, column, place, keep, counts)
        arrays.append(_wrapped(values))
    converted = pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])
    if not keep.all():
        converted = converted.filter(pa.array(keep))
    return Converted(converted, counts.dropped, counts.ignored)


def _label_rows(values: pa.Array, column: Column, place: str, keep: Any, counts: _Counts) -> Any:
    """Returns which rows remain: those that have this label. A row that lacks several is counted under the first."""
    if column.is_binary:
        wrong = values.filter(pc.and_(pc.not_equal(values, 0), pc.not_equal(values, 1)))
        if len(wrong):
            raise UserError(
                f"{place}: column '{column.name}': not a binary label (got {wrong[0].as_py()}); "
                "0 or 1, and no value where it is not known"
            )
    present = np.asarray(values.is_valid())
    lost = int(np.count_nonzero(keep & ~present))
    if lost:
        counts.dropped[f"label missing: {column.name}"] += lost
    return keep & present


def _values(array: pa.Array, column: Column, place: str, counts: _Counts) -> pa.Array:
    """Returns the values as int64, float32 or binary; what is no number becomes null."""
    target = TARGET[column.type]
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if column.type == "float":
        return _floats(array, column, counts)
    if pa.types.is_uint64(array.type):
        largest = pc.max(array).as_py()
        if largest is not None and largest > _INT64_MAX:
            raise UserError(
                f"{place}: column '{column.name}': too large for a 64-bit signed integer (got {largest}); "
                f"at most {_INT64_MAX}: log it as int64, or as a string and declare type: string"
            )
    return array.cast(target)


def _floats(array: pa.Array, column: Column, counts: _Counts) -> pa.Array:
    if pa.types.is_float16(array.type):
        # Arrow has no cast from float16.
        valid = np.asarray(array.is_valid())
        array = pa.array(array.to_numpy(zero_copy_only=False).astype(np.float32), mask=~valid)
    floats = array.cast(pa.float32(), safe=False)
    finite = pc.is_finite(floats)
    num_wrong = int(pc.sum(pc.invert(finite)).as_py() or 0)
    if not num_wrong:
        return floats
    counts.ignored[f"not finite: {column.name}"] += num_wrong
    return pc.if_else(finite, floats, pa.scalar(None, pa.float32()))


def _wrapped(values: pa.Array) -> pa.Array:
    """Makes a list of one of every value, and a null list of every null."""
    valid = np.asarray(values.is_valid())
    offsets = np.concatenate([[0], np.cumsum(valid)])
    nulls = np.concatenate([~valid, [False]])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=nulls), values.drop_null())


def _list_column(array: pa.Array, column: Column, place: str, counts: _Counts) -> pa.Array:
    """Returns lists without nulls inside; a null list is an empty one."""
    if pa.types.is_null(array.type):
        array = pa.nulls(len(array), pa.list_(TARGET[column.type]))
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    flat = array.flatten()
    if flat.null_count:
        counts.ignored[f"null in list: {column.name}"] += flat.null_count
    values = _values(flat, column, place, counts)
    if values.null_count:
        # tfx_bsl would write a null inside a list as a zero.
        rows = np.repeat(np.arange(len(array)), lengths)[np.asarray(values.is_valid())]
        lengths = np.bincount(rows, minlength=len(array))
        values = values.drop_null()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
