"""One Arrow type for each column, independent of its files, so that rows of many files can be compared and gathered."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sangam.components.logs.readers.column_types import type_problem
from sangam.components.logs.rows.labels import labels_of
from sangam.components.logs.rows.lists import read_lists
from sangam.components.logs.rows.missing import without_missing
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column, ColumnType

_TYPES: dict[ColumnType, pa.DataType] = {"int": pa.int64(), "float": pa.float64(), "string": pa.binary()}


def canonical_type(column: Column) -> pa.DataType:
    """Returns the Arrow type of a column."""
    return pa.list_(_TYPES[column.type]) if column.is_list else _TYPES[column.type]


def canonical(batch: pa.RecordBatch, columns: Sequence[Column], path: str) -> dict[str, pa.Array]:
    """Returns the columns by name, as int64, float64, binary or lists of them, with null for missing values.

    A null list is an empty one.

    Raises:
        UserError: for a wrong type, and an integer over 64 bits.
    """
    return {
        column.name: _canonical(batch.column(batch.schema.get_field_index(column.name)), column, path)
        for column in columns
    }


def _canonical(array: pa.Array, column: Column, path: str) -> pa.Array:
    problem = type_problem(column, array.type)
    if problem:
        raise UserError(f"{path}: column '{column.name}': {problem}")
    if not column.is_list:
        return _values(array, column, path)
    # Missing values in lists are counted when the joined rows are converted.
    lists = read_lists(array, column, Counter(), lambda values: _values(values, column, path))
    offsets = np.concatenate([[0], np.cumsum(lists.lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), lists.values)


def _values(array: pa.Array, column: Column, path: str) -> pa.Array:
    target = _TYPES[column.type]
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_float16(array.type):
        # Arrow has no cast from float16.
        valid = np.asarray(array.is_valid())
        array = pa.array(array.to_numpy(zero_copy_only=False).astype(np.float64), mask=~valid)
    if column.type == "string" and pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    if column.is_binary and pa.types.is_floating(array.type):
        return labels_of(array, column, path)
    try:
        # Floats of integers above 2**53 are rounded, as they are without a join.
        return without_missing(array.cast(target, safe=column.type != "float"))
    except pa.ArrowInvalid as error:
        raise UserError(
            f"{path}: column '{column.name}': too large for a 64-bit signed integer (got: {error}); read its "
            "digits, with type: string"
        ) from error
