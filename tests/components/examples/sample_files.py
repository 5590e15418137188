"""Writes and reads small Examples artifacts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa


def write_examples(uri: Path, splits: Mapping[str, Mapping[str | None, Sequence[bytes]]]) -> None:
    """Writes serialized tf.Examples as the examples of each split and day (None for logs without days)."""
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    from sangam.components.examples.listing import DayExamples, Listing, write_listing
    from sangam.components.examples.writer import BlockWriter

    listed: dict[str, list[DayExamples]] = {}
    for split, days in splits.items():
        for day, examples in days.items():
            folder = uri.parent / f"{uri.name}-days" / f"{day or split}"
            folder.mkdir(parents=True, exist_ok=True)
            with BlockWriter(str(folder), day, 0) as writer:
                if examples:
                    writer.write(ExamplesToRecordBatchDecoder().DecodeBatch(list(examples)))
            made = DayExamples(day=day, folder=str(folder), names=tuple(writer.names), rows=len(examples))
            listed.setdefault(split, []).append(made)
    uri.mkdir(parents=True, exist_ok=True)
    write_listing(str(uri), Listing(splits={split: tuple(days) for split, days in listed.items()}))


def write_eval_split(uri: Path, columns: Mapping[str, Any]) -> None:
    """Writes columns of one value a row as the examples of the eval split; None is a missing value."""
    import tensorflow as tf

    def feature(value: Any) -> Any:
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if isinstance(value, np.integer):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))

    examples = []
    for row in zip(*columns.values(), strict=True):
        features = {name: feature(value) for name, value in zip(columns, row, strict=True) if value is not None}
        examples.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    write_examples(uri, {"eval": {None: examples}})


def read_examples(uri: str, split: str) -> list[dict[str, list[Any]]]:
    """Returns the values of every example of a split; a column without values is left out."""
    from sangam.components.examples.listing import read_listing

    return [row for file in read_listing(uri).files(split) for row in read_file(file)]


def read_file(file: str) -> list[dict[str, list[Any]]]:
    """Returns the values of every example of a file."""
    from sangam.components.examples.reading import batches

    return [present(row) for batch in batches(file) for row in pa.Table.from_batches([batch]).to_pylist()]


def present(row: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Returns the columns of a row that have values."""
    return {name: values for name, values in row.items() if values}
