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


def model_input(batch: pa.RecordBatch) -> tf.Tensor:
    """Returns the examples as a model's signatures take them: serialized."""
    return tf.constant(serialized(batch), tf.string)
