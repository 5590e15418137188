"""Reads files of examples, batch by batch."""

from collections.abc import Iterator

import pyarrow as pa
import tensorflow as tf

from sangam.components.examples.blocks import Types, decode, decompressed, rows_of

_UNTUNED = tf.data.Options()
# Otherwise an iterator's destructor waits for tf.data's tuner, for up to the time of reading the file.
_UNTUNED.autotune.enabled = False


def batches(file: str) -> Iterator[pa.RecordBatch]:
    """Yields the blocks of a file; see `blocks.decode`."""
    for block in tf.data.TFRecordDataset(file).with_options(_UNTUNED).as_numpy_iterator():
        yield decode(block)


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
    waiting: list[bytes] = []
    for block in tf.data.TFRecordDataset(file).with_options(_UNTUNED).as_numpy_iterator():
        waiting.append(decompressed(block))
        if len(waiting) == at_once or sum(map(len, waiting)) >= most_bytes:
            yield waiting, rows_of(waiting, only)
            waiting = []
    if waiting:
        yield waiting, rows_of(waiting, only)
