"""Rows of a DataFrame or a table of Arrow as a model's columns: the conversion of ingestion, and what pandas adds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.readers.column_types import is_list
from sangam.components.logs.readers.forms import numbers_of
from sangam.components.logs.readers.nested import columns_of, places_of, type_of
from sangam.components.logs.rows.conversion import Converted, convert
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.forms import Form

Data: TypeAlias = Any
"""Rows of a user: a pandas DataFrame or a pyarrow Table."""
_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)
"""Errors of pyarrow on values that no type of Arrow holds."""
_WHOLE = 2.0**53
"""Up to here every whole number is a float64."""


def rows_of(
    data: Data, columns: Sequence[Column], forms: Mapping[str, Form], batch_rows: int, place: str = "data"
) -> Iterator[pa.RecordBatch]:
    """Yields the columns of the rows in batches: a list column of int64, float32 or binary for each column.

    Args:
        data: rows, with all columns, and any others.
        columns: columns to read.
        forms: forms of columns that are no numbers or ids yet, from `data.columns` of the spec.
        batch_rows: most rows of a batch.
        place: name of the data in errors.

    Raises:
        UserError: a column is missing, is there twice, or has another type.
    """
    for start, batch in _batches(data, columns, batch_rows, place):
        yield converted(batch, columns, forms, place, start).batch


def converted(
    batch: pa.RecordBatch, columns: Sequence[Column], forms: Mapping[str, Form], place: str, first_row: int
) -> Converted:
    """Returns a batch with values of any type that fits as ingestion does, with its counts.

    Raises:
        UserError: see `rows_of`.
    """
    arrays = [
        _fitting(batch.column(index), column, forms.get(column.name), f"{place}: column '{column.name}'")
        for index, column in enumerate(columns)
    ]
    read = pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])
    return convert(read, columns, place, first_row)


def _batches(
    data: Data, columns: Sequence[Column], batch_rows: int, place: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the index of the first row, and the columns by their names, fields of structs among them."""
    names = list(map(str, data.columns)) if isinstance(data, pd.DataFrame) else data.column_names
    places = places_of([column.name for column in columns], names)
    roots = list(dict.fromkeys(root for root, _ in places.values()))
    _require(columns, places, names, place)
    indices = [names.index(root) for root in roots]
    for start in range(0, data.num_rows if isinstance(data, pa.Table) else len(data), batch_rows):
        if isinstance(data, pd.DataFrame):
            part = data.iloc[start : start + batch_rows]
            arrays = [
                _of_pandas(part.iloc[:, index], f"{place}: column '{root}'")
                for index, root in zip(indices, roots, strict=True)
            ]
        else:
            table = data.slice(start, batch_rows)
            arrays = [_whole(table.column(index)) for index in indices]
        batch = pa.RecordBatch.from_arrays(arrays, roots)
        for name, where in places.items():
            if type_of(where, batch.schema) is None:
                raise UserError(f"{place}: column '{name}': is missing (got a column '{where[0]}' without it); add it")
        yield start, columns_of(batch, places)


def _require(columns: Sequence[Column], places: Mapping[str, Any], names: Sequence[str], place: str) -> None:
    problems = [
        f"{place}: column '{column.name}': missing (got {listed(names)}); add it, with nulls where rows have no value"
        for column in columns
        if column.name not in places
    ]
    problems += [
        f"{place}: column '{root}': is not unique (got {count} of this name); rename the others"
        for root in dict.fromkeys(root for root, _ in places.values())
        if (count := names.count(root)) > 1
    ]
    if problems:
        raise UserError("\n".join(problems))


def _of_pandas(series: Any, place: str) -> pa.Array:
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    try:
        return _whole(pa.array(series, from_pandas=True))
    except _REFUSED:
        # pyarrow takes no NumPy arrays of texts as lists.
        cells = [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in series]
    try:
        return pa.array(cells, from_pandas=True)
    except _REFUSED:
        types = listed([each.__name__ for each in {type(cell) for cell in cells if cell is not None}])
        raise UserError(
            f"{place}: has values of several types, or of one that Arrow does not have (got {types}); give one type"
        ) from None


def _whole(array: Any) -> pa.Array:
    """Returns an array in one piece."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _fitting(array: pa.Array, column: Column, form: Form | None, place: str) -> pa.Array:
    """Returns an array of a type that ingestion takes, where its values can be read as the column's in one way only."""
    array = _plain(array)
    if form is not None:
        return numbers_of(array, form, place)
    if column.time is not None and pa.types.is_timestamp(array.type):
        return _seconds(array, place)
    if column.is_list and is_list(array.type):
        return _with_values(array, lambda values: _fitting_values(_plain(values), column, place))
    return _fitting_values(array, column, place)


def _plain(array: pa.Array) -> pa.Array:
    """Returns the values of categories, of runs, and of the types of other libraries."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _fitting_values(array: pa.Array, column: Column, place: str) -> pa.Array:
    # pandas turns integers into floats as soon as one is missing.
    if column.type == "int" and pa.types.is_floating(array.type) and not column.is_binary:
        return _whole_numbers(array, place)
    return array


def _whole_numbers(array: pa.Array, place: str) -> pa.Array:
    floats = array.to_numpy(zero_copy_only=False).astype(np.float64)
    is_given = ~np.isnan(floats)
    if len(broken := floats[is_given & (np.floor(floats) != floats)]):
        raise UserError(f"{place}: has floats (got {broken[0]:g}); an int column takes whole numbers")
    if len(large := floats[is_given & (np.abs(floats) > _WHOLE)]):
        raise UserError(
            f"{place}: has floats beyond 2^53, which have lost digits (got {large[0]:g}); give integers, those with "
            "nulls as pandas's type Int64 or as a pyarrow Table"
        )
    return pa.array(np.where(is_given, floats, 0).astype(np.int64), mask=~is_given)


def _seconds(array: pa.Array, place: str) -> pa.Array:
    """Returns seconds since 1970, rounded down."""
    if array.type.tz is None:
        raise UserError(
            f"{place}: has times without a zone (got {array.type}); give them one, in pandas with .dt.tz_localize, or "
            "give seconds since 1970 (UTC)"
        )
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    ticks = np.asarray(array.cast(pa.int64()).fill_null(0)) // per_second
    return pa.array(ticks, pa.int64(), mask=np.asarray(array.is_null()))


def _with_values(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Returns lists with other values; a null list is empty, as ingestion reads it."""
    values = array.flatten()
    changed = change(values)
    if changed is values:
        return array
    if pa.types.is_fixed_size_list(array.type):
        lengths = np.asarray(array.is_valid()).astype(np.int64) * array.type.list_size
    else:
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, changed)
