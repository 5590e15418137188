"""The values of slices that parts of others compute."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.outside import slice_texts
from sangam.components.steps.evaluator.metrics.columns import first_values, lists, numbers
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.judging import Slice


def texts_of(part: Slice, batch: pa.RecordBatch) -> pa.Array:
    """Returns the text of each example; null without one."""
    texts = slice_texts(part, [_values(batch, column) for column in part.reads()], batch.num_rows)
    return pa.array(texts, pa.string(), mask=texts == "")


def _values(batch: pa.RecordBatch, column: Column) -> NDArray[Any]:
    if not column.is_list:
        return _typed(first_values(batch, column.name), column)
    index = batch.schema.get_field_index(column.name)
    starts = ends = np.zeros(batch.num_rows, np.int64)
    values = pa.nulls(0)
    if index >= 0:  # Otherwise no example of the batch has a value.
        starts, ends, values = lists(batch.column(index))
    flat, of_rows = _typed(values, column), np.empty(batch.num_rows, object)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        of_rows[row] = flat[start:end]
    return of_rows


def _typed(values: pa.Array, column: Column) -> NDArray[Any]:
    """Returns float64, int64 or str; missing values are NaN, 0 and ""."""
    if column.type == "float":
        return numbers(values)
    if column.type == "int":
        known = pa.nulls(len(values), pa.int64()) if pa.types.is_null(values.type) else values
        ints: NDArray[np.int64] = known.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return ints
    texts = [each.decode(errors="backslashreplace") if isinstance(each, bytes) else each for each in values.to_pylist()]
    return np.array([each or "" for each in texts], str)
