"""Reads examples, and converts them to models' inputs."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import tensorflow as tf

from components.examples.listing import read_listing
from components.examples.reading import batches, serialized


def sources(examples: Any, split: str) -> list[str]:
    """Returns the files of a split of an Examples artifact."""
    return list(read_listing(examples.uri).files(split))


def num_examples(examples: Any, split: str) -> int:
    """Returns the number of examples of a split."""
    return sum(day.rows for day in read_listing(examples.uri).splits.get(split, ()))


def read(source: str) -> Iterator[pa.RecordBatch]:
    """Yields the examples of a source: a list of values per example and column."""
    yield from batches(source)


def first_rows(examples: Any, split: str, columns: list[str], most: int) -> pa.Table:
    """Returns columns of the first examples of a split: a list of values per example."""
    parts, rows = [], 0
    for source in sources(examples, split):
        for batch in read(source):
            parts.append(pa.Table.from_batches([batch]).select(columns).slice(0, most - rows))
            rows += parts[-1].num_rows
            if rows >= most:
                return pa.concat_tables(parts)
    return pa.concat_tables(parts)


def model_input(batch: pa.RecordBatch) -> tf.Tensor:
    """Returns the examples as a model's signatures take them: serialized."""
    return tf.constant(serialized(batch), tf.string)
