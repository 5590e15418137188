"""Reads files of examples, batch by batch."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import tensorflow as tf
from tfx_bsl.coders.example_coder import RecordBatchToExamples

from sangam.components.examples.blocks import decode

_UNTUNED = tf.data.Options()
# Otherwise an iterator's destructor waits for tf.data's tuner, for up to the time of reading the file.
_UNTUNED.autotune.enabled = False


def batches(file: str) -> Iterator[pa.RecordBatch]:
    """Yields the blocks of a file; see `blocks.decode`."""
    for block in tf.data.TFRecordDataset(file).with_options(_UNTUNED).as_numpy_iterator():
        yield decode(block)


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
