"""Writes rows into Parquet files of parts. No file stays open, so that there may be any number of parts."""

import io
import posixpath
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tfx.dsl.io import fileio

from sangam.components.logs.readers.column_types import TARGET
from sangam.schemas.parts.columns import Column

ROWS_OF_FILE = 50_000
MOST_ROWS = 1_000_000
"""Most rows in memory."""


def stored(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Returns columns of the logs with the same types for all files and batches; values are unchanged."""
    arrays = [_stored(batch.column(batch.schema.get_field_index(column.name)), column) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])


def _stored(array: pa.Array, column: Column) -> pa.Array:
    # A label may be 1.0 or NaN in one file and an integer in another.
    target = pa.float64() if column.type == "float" or column.is_binary else TARGET[column.type]
    if column.is_list:
        return array.cast(pa.large_list(target))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_float16(array.type):
        # Arrow has no cast from float16.
        return pa.array(array.to_numpy(zero_copy_only=False).astype(np.float64), mask=np.asarray(array.is_null()))
    if pa.types.is_boolean(array.type) and pa.types.is_floating(target):
        array = array.cast(pa.int64())
    return array.cast(target)


class PartsWriter:
    """Collects rows by part. The files depend on the rows alone: a table that grows leaves the files of earlier days as
    they were."""

    def __init__(self, folder: str, rows_of_file: int = ROWS_OF_FILE, most_rows: int = MOST_ROWS):
        """Takes the folder, the rows of a file and the most rows in memory."""
        self._folder, self._rows_of_file, self._most_rows = folder, rows_of_file, most_rows
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._num_waiting: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        """Number of rows of each part."""

    def add(self, batch: pa.RecordBatch, parts: NDArray[Any]) -> None:
        """Adds rows with the names of their parts."""
        names, codes = np.unique(parts.astype(str), return_inverse=True)
        for code, name in enumerate(names.tolist()):
            of_part = batch.filter(pa.array(codes == code)) if len(names) > 1 else batch
            self._waiting.setdefault(name, []).append(of_part)
            self._num_waiting[name] += of_part.num_rows
            self.rows[name] += of_part.num_rows
            while self._num_waiting[name] >= self._rows_of_file:
                self._write(name, self._rows_of_file)
        while self._num_waiting.total() > self._most_rows:
            largest = max(self._num_waiting, key=lambda name: (self._num_waiting[name], name))
            self._write(largest, self._num_waiting[largest])

    def finish(self) -> None:
        """Writes the rest."""
        for name in sorted(self._waiting):
            if self._num_waiting[name]:
                self._write(name, self._num_waiting[name])

    def _write(self, name: str, num_rows: int) -> None:
        rows = pa.Table.from_batches(self._waiting[name]).combine_chunks()
        folder = posixpath.join(self._folder, name)
        if not self._files[name]:
            fileio.makedirs(folder)
        content = io.BytesIO()
        pq.write_table(rows.slice(0, num_rows), content)
        with fileio.open(posixpath.join(folder, f"part-{self._files[name]:05d}.parquet"), "wb") as file:
            file.write(content.getvalue())
        self._files[name] += 1
        self._waiting[name] = rows.slice(num_rows).to_batches()
        self._num_waiting[name] -= num_rows
