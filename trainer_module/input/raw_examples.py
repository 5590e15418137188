"""A few rows of blocks for the served model's signature of examples: one serialized tf.Example each.

Whoever needs many rows reads columns (`blocks.Table`): a tf.Example of a row costs a Python loop over its columns.
"""

import zlib
from collections.abc import Iterator, Sequence
from itertools import islice

import tensorflow as tf

from sangam.schemas.contracts.example_files import lengths_of, values_of
from sangam.trainer_module.input.ending import untuned

_VALUES = values_of("")


def first_examples(files: Sequence[str], most: int) -> list[bytes]:
    """Returns the first rows of files, in their order; a column without values is left out."""
    blocks = untuned(tf.data.TFRecordDataset(list(files))).as_numpy_iterator()
    rows = (row for block in blocks for row in _rows(tf.train.Example.FromString(zlib.decompress(block))))
    return list(islice(rows, most))


def _rows(block: tf.train.Example) -> Iterator[bytes]:
    columns = block.features.feature
    names = [name.removeprefix(_VALUES) for name in columns if name.startswith(_VALUES)]
    kinds = {name: columns[values_of(name)].WhichOneof("kind") for name in names}
    values = {name: getattr(columns[values_of(name)], kind).value for name, kind in kinds.items() if kind}
    lengths = {name: columns[lengths_of(name)].int64_list.value for name in values}
    starts = dict.fromkeys(values, 0)
    for row in range(max(map(len, lengths.values()), default=0)):
        example = tf.train.Example()
        for name, start in starts.items():
            if length := lengths[name][row]:
                of_row = getattr(example.features.feature[name], kinds[name]).value
                of_row.extend(values[name][start : start + length])
                starts[name] = start + length
        yield example.SerializeToString(deterministic=True)
