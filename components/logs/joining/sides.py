"""The two sides of a join, as record batches with a place in the logs, a time and keys."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.joining.keys import NO_KEY, Integers, codes

DAY, FILE, ROW, TIME, KEY, VALUE = "day", "file", "row", "time", "key.", "value."
"""Columns: the day of the file (1 is 0001-01-01), the file's number, the row in it, its time, and prefixes."""
_FAR_S = 2**60
"""Times are clipped to this, so that sums with a window do not overflow; other code refuses implausible times."""


@dataclass(frozen=True)
class Side:
    """Rows in the order of their files.

    Attributes:
        batch: their columns.
        keys: numbers, NO_KEY also for a row without a time.
        times: seconds since 1970.
        days: days of their files.
    """

    batch: pa.RecordBatch
    keys: Integers
    times: Integers
    days: Integers

    def of(self, days: Collection[int]) -> Integers:
        """Returns the indices of the rows in the files of some days."""
        return np.flatnonzero(np.isin(self.days, list(days)))

    def at(self, rows: Integers) -> tuple[Integers, Integers]:
        """Returns the keys and times of rows."""
        return self.keys[rows], self.times[rows]

    def column(self, name: str) -> pa.Array:
        """Returns a column."""
        return self.batch.column(self.batch.schema.get_field_index(name))


def sides(rows: pa.RecordBatch, others: pa.RecordBatch) -> tuple[Side, Side]:
    """Brings both sides into the order of their files and numbers their keys."""
    rows, others = _in_order(rows), _in_order(others)
    row_keys, keys = codes(_keys(rows), _keys(others))
    return _side(rows, row_keys), _side(others, keys)


def _in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers = [numbers_of(batch, name) for name in (ROW, FILE)]
    return batch.take(pa.array(np.lexsort(numbers)))


def _side(batch: pa.RecordBatch, keys: Integers) -> Side:
    times = batch.column(batch.schema.get_field_index(TIME))
    is_known: NDArray[np.bool_] = np.asarray(times.is_valid(), dtype=bool)
    clipped = np.clip(np.asarray(times.fill_null(0)), -_FAR_S, _FAR_S)
    return Side(batch, np.where(is_known, keys, NO_KEY), clipped, numbers_of(batch, DAY))


def numbers_of(batch: pa.RecordBatch, name: str) -> Integers:
    """Returns a column of integers without nulls."""
    return np.asarray(batch.column(batch.schema.get_field_index(name)))


def _keys(batch: pa.RecordBatch) -> Sequence[pa.Array]:
    return [batch.column(index) for index, name in enumerate(batch.schema.names) if name.startswith(KEY)]
