"""Reads files of examples, batch by batch."""

import itertools
import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import tensorflow as tf
from tfx_bsl.coders.example_coder import RecordBatchToExamples

from sangam.components.examples.blocks import decode, rows_of
from sangam.schemas.contracts.example_files import BLOCK_ROWS

_BATCH_BYTES = 64 * 2**20
"""Of blocks, whose rows take about twice as much in memory."""
_BATCH_ROWS = 16_384
_UNTUNED = tf.data.Options()
# Otherwise an iterator's destructor waits for tf.data's tuner, for up to the time of reading the file.
_UNTUNED.autotune.enabled = False


def batches(file: str) -> Iterator[pa.RecordBatch]:
    """Yields the blocks of a file; see `blocks.decode`."""
    return map(decode, _records(file))


def large_batches(files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of files in batches of many blocks, whose size is bounded by bytes."""
    group: list[bytes] = []
    for block in itertools.chain.from_iterable(map(_records, files)):
        group.append(zlib.decompress(block))
        if len(group) * BLOCK_ROWS >= _BATCH_ROWS or sum(map(len, group)) >= _BATCH_BYTES:
            yield rows_of(group)
            group = []
    if group:
        yield rows_of(group)


def _records(file: str) -> Iterator[bytes]:
    records: Iterator[bytes] = tf.data.TFRecordDataset(file).with_options(_UNTUNED).as_numpy_iterator()
    return records


def first_examples(files: Sequence[str], most: int) -> list[bytes]:
    """Returns the first rows as one serialized tf.Example each."""
    examples: list[bytes] = []
    for file in files:
        for batch in batches(file):
            examples += serialized(batch.slice(0, most - len(examples)))
            if len(examples) >= most:
                return examples
    return examples


def serialized(rows: pa.RecordBatch) -> list[bytes]:
    """Returns rows as one serialized tf.Example each; a column without values is left out."""
    return list(RecordBatchToExamples(rows))
