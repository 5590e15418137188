"""Writes rows to files of blocks."""

import posixpath
from collections.abc import Iterator
from types import TracebackType

import pyarrow as pa
import tensorflow as tf

from sangam.components.examples.blocks import encode
from sangam.schemas.contracts.example_files import BLOCK_ROWS, file_name

BYTES_PER_FILE = 128 * 2**20
"""Size at which a file ends and another begins."""


class BlockWriter:
    """Writes rows in order to one or more files.

    Names and content depend on the rows alone: a second try writes the same files as the first.

    Attributes:
        names: names of the files so far.
        rows: number of rows so far.
    """

    def __init__(self, folder: str, day: str | None, source: int, bytes_per_file: int = BYTES_PER_FILE):
        """Starts the first file.

        Args:
            folder: existing folder for the files.
            day: the rows' day, YYYY-MM-DD; None for logs without days.
            source: number of these rows' source within the day.
            bytes_per_file: size at which a file ends.
        """
        self._folder, self._day, self._source, self._most = folder, day, source, bytes_per_file
        self._waiting: list[pa.RecordBatch] = []
        self._num_waiting = 0
        self.names: list[str] = []
        self.rows = 0
        self._begin()

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows; see `blocks.encode`."""
        if not rows.num_rows:
            return
        self._waiting.append(rows)
        self._num_waiting += rows.num_rows
        if self._num_waiting >= BLOCK_ROWS:
            *blocks, rest = _in_blocks(self._waiting)
            for block in blocks:
                self._write(block)
            self._waiting, self._num_waiting = [rest], rest.num_rows

    def close(self) -> None:
        """Writes the last rows."""
        if self._num_waiting:
            for block in _in_blocks(self._waiting):
                self._write(block)
        self._file.close()

    def _begin(self) -> None:
        self.names.append(file_name(self._day, self._source, len(self.names)))
        self._file, self._bytes = tf.io.TFRecordWriter(posixpath.join(self._folder, self.names[-1])), 0

    def _write(self, block: pa.RecordBatch) -> None:
        if not block.num_rows:
            return
        if self._bytes >= self._most:
            self._file.close()
            self._begin()
        encoded = encode(block)
        self._file.write(encoded)
        self._bytes += len(encoded)
        self.rows += block.num_rows

    def __enter__(self) -> "BlockWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _in_blocks(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows in blocks; the last one may be empty or not full."""
    table = pa.Table.from_batches(batches).combine_chunks()
    for start in range(0, table.num_rows + 1, BLOCK_ROWS):
        block = table.slice(start, BLOCK_ROWS)
        yield pa.RecordBatch.from_arrays([_whole(column) for column in block.columns], schema=table.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
