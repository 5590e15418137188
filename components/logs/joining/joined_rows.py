"""Returns joined columns to the order of the main log, by files of consecutive rows of one log file."""

import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tfx.dsl.io import fileio

from sangam.components.logs.files.source_files import supplied_twice
from sangam.components.logs.files.storage import open_file
from sangam.components.logs.joining.bucket import IS_MATCHED
from sangam.components.logs.joining.sides import FILE, ROW, VALUE, numbers_of
from sangam.components.logs.joining.slices import single, to_bytes, together
from sangam.components.logs.readers import formats
from sangam.components.logs.readers.batches import Rows
from sangam.schemas.derived.sources import columns_of_log, sources_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import Logs
from sangam.schemas.spec.sources import Source, StateTable

ROWS_PER_CHUNK = 2**17


@dataclass(frozen=True)
class JoinedFolder:
    """Location of the joined columns.

    Attributes:
        folder: folder of the chunks.
        numbers: numbers of the log files, by path.
    """

    folder: str
    numbers: Mapping[str, int]


def chunk_numbers(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Returns one number for the log file and the chunk of each row."""
    return (numbers_of(batch, FILE).astype(np.int64) << 32) + numbers_of(batch, ROW) // ROWS_PER_CHUNK


def write_chunk(folder: str, number: int, pieces: Sequence[tuple[str, bytes]]) -> None:
    """Writes the joined columns of one chunk in the order of its rows.

    Args:
        folder: folder of the chunks.
        number: as `chunk_numbers` returns it.
        pieces: name of the source and joined rows, of all sources and buckets.
    """
    arrays: dict[str, pa.Array] = {}
    for source in sorted({source for source, _ in pieces}):
        batch = together(content for name, content in pieces if name == source)
        order = pa.array(np.argsort(numbers_of(batch, ROW), kind="stable"))
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name not in (FILE, ROW):
                arrays[f"{IS_MATCHED}: {source}" if name == IS_MATCHED else name] = array.take(order)
    path = _path(folder, number)
    temporary = f"{path}.{uuid.uuid4().hex}"
    with fileio.open(temporary, "wb") as file:
        file.write(to_bytes(pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))))
    fileio.rename(temporary, path, overwrite=True)


def _path(folder: str, number: int) -> str:
    return posixpath.join(folder, f"{number:016x}.arrow")


def read_joined(
    logs: Logs, columns: Sequence[Column], path: str, joined: JoinedFolder | None
) -> Iterator[tuple[Rows, dict[str, NDArray[np.bool_]]]]:
    """Yields the rows of a file of the main log with their joined columns, and which rows are to be dropped, by reason.

    Args:
        logs: the spec's data section.
        columns: columns to read, also those of sources.
        path: path of the file.
        joined: location of the joined columns; None without sources.

    Raises:
        UserError: if the file does not fit the spec.
    """
    first_row = 0
    with open_file(path) as file:
        joined_rows = JoinedRows(joined, path, logs) if joined else None
        for rows in formats.read(logs, file, path, columns_of_log(logs, columns)):
            if twice := supplied_twice(logs, rows.unread, path):
                raise UserError("\n".join(twice))
            yield joined_rows.add(rows, first_row) if joined_rows else (rows, {})
            first_row += rows.batch.num_rows


class JoinedRows:
    """Adds the joined columns to the rows of one log file, which are read in order."""

    def __init__(self, joined: JoinedFolder, path: str, logs: Logs):
        """Takes the folder, the log file, and the spec's data section."""
        self._folder, self._file, self._sources = joined.folder, joined.numbers[path], sources_of(logs)
        self._chunk, self._rows = -1, pa.RecordBatch.from_arrays([], [])

    def add(self, rows: Rows, first_row: int) -> tuple[Rows, dict[str, NDArray[np.bool_]]]:
        """Returns the rows with their joined columns, and which rows are to be dropped, by reason.

        Args:
            rows: rows of the log file.
            first_row: index of the first one.
        """
        parts = []
        row, end = first_row, first_row + rows.batch.num_rows
        while row < end:
            self._load(row // ROWS_PER_CHUNK)
            in_chunk = row % ROWS_PER_CHUNK
            part = self._rows.slice(in_chunk, end - row)
            if not part.num_rows:
                raise RuntimeError(f"joined rows of file {self._file} end before row {row}")
            parts.append(part)
            row += part.num_rows
        if not parts:
            self._load(0)
            parts = [self._rows.slice(0, 0)]
        joined = single(parts)
        dropped = {}
        columns = dict(zip(rows.batch.schema.names, rows.batch.columns, strict=True))
        for name, array in zip(joined.schema.names, joined.columns, strict=True):
            if name.startswith(VALUE):
                columns[name.removeprefix(VALUE)] = array
                continue
            source = name.removeprefix(f"{IS_MATCHED}: ")
            if _drops(self._sources[source]):
                dropped[f"no version in {source}"] = ~np.asarray(array, dtype=bool)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return Rows(batch, rows.absent, rows.num_unreadable), dropped

    def _load(self, chunk: int) -> None:
        if chunk == self._chunk:
            return
        with fileio.open(_path(self._folder, (self._file << 32) + chunk), "rb") as file:
            self._rows = together([file.read()])
        self._chunk = chunk


def _drops(source: Source) -> bool:
    return isinstance(source, StateTable) and source.missing == "drop"
