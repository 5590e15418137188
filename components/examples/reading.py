"""Reads files of examples, batch by batch."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import tensorflow as tf

from sangam.components.examples.blocks import Types, decode, decompressed, rows_of
from sangam.schemas.contracts.example_files import BLOCK_ROWS

_BATCH_BYTES = 64 * 2**20
"""Of blocks, whose rows take about twice as much in memory."""
_BATCH_ROWS = 16_384


def batches(file: str) -> Iterator[pa.RecordBatch]:
    """Yields the blocks of a file; see `blocks.decode`."""
    return map(decode, _records(file))


def large_batches(files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of files in batches of many blocks, whose size is bounded by bytes."""
    records = itertools.chain.from_iterable(map(_records, files))
    return map(rows_of, _groups(records, _BATCH_ROWS // BLOCK_ROWS, _BATCH_BYTES))


def blocks_with_rows(
    file: str, at_once: int, only: Types | None = None, *, most_bytes: int = 2**22
) -> Iterator[tuple[list[bytes], pa.RecordBatch]]:
    """Yields some blocks of a file, decompressed, and their rows; see `blocks.rows_of`.

    Args:
        file: path of the file.
        at_once: blocks that are read together, fewer at the end of the file, or if they are large.
        only: columns to read as rows; by default all.
        most_bytes: bytes after which no further block is read together with those before.
    """
    for blocks in _groups(_records(file), at_once, most_bytes):
        yield blocks, rows_of(blocks, only)


def _groups(records: Iterable[bytes], at_once: int, most_bytes: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    for record in records:
        group.append(decompressed(record))
        if len(group) == at_once or sum(map(len, group)) >= most_bytes:
            yield group
            group = []
    if group:
        yield group


def _records(file: str) -> Iterator[bytes]:
    # Without tf.data, whose dataset of one file takes 20 ms to begin: as long as a day of a thousand rows.
    records: Iterator[bytes] = tf.compat.v1.io.tf_record_iterator(file)
    return records
