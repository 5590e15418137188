"""Files of blocks, written from and read as one tf.Example for each row."""

import zlib
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import tensorflow as tf

from sangam.schemas.contracts.example_files import BLOCK_ROWS, lengths_of, values_of
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.example_reader import transformed_reader


def write_blocks(file: Path | str, examples: Iterable[bytes], block_rows: int = BLOCK_ROWS) -> None:
    """Writes serialized examples, so many to a block."""
    left = iter(examples)
    with tf.io.TFRecordWriter(str(file)) as writer:
        while rows := list(islice(left, block_rows)):
            writer.write(zlib.compress(plain_block(rows), 1))


def batch_of(ranker: RankerSpec, examples: Sequence[bytes]) -> Batch:
    """Returns Transform's examples, serialized, as a batch."""
    reader = transformed_reader(ranker)
    return reader.batch_of(reader.table.decode(tf.constant([zlib.compress(plain_block(examples))])))


def plain_block(rows: Sequence[bytes], columns: Iterable[str] = ()) -> bytes:
    """Returns serialized examples as a block before its compression, with columns of which no example has a value."""
    examples = [tf.train.Example.FromString(row).features.feature for row in rows]
    whole = tf.train.Example()
    block = whole.features.feature
    for name in sorted({*columns, *(name for example in examples for name in example)}):
        lengths = []
        block[values_of(name)].SetInParent()
        for example in examples:
            kind = example[name].WhichOneof("kind") if name in example else None
            values = getattr(example[name], kind).value if kind else []
            if values:
                getattr(block[values_of(name)], kind).value.extend(values)
            lengths.append(len(values))
        block[lengths_of(name)].int64_list.value.extend(lengths)
    return whole.SerializeToString()
