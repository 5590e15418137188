"""A row of logs as a raw example."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def example_of(row: Mapping[str, list[Any]]) -> bytes:
    """Returns a row, {column: values}, as ingestion writes it."""
    example = tf.train.Example()
    for name, values in row.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], str):
            feature.bytes_list.value.extend(value.encode() for value in values)
        elif values and isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        elif values:
            feature.float_list.value.extend(values)
    return bytes(example.SerializeToString(deterministic=True))
