"""A day of logs as bytes in one of the formats that ingestion reads."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from sangam.schemas.spec.patterns import FileFormat

LIST_SEPARATOR = "|"


def write_table(table: pa.Table, folder: Path, file_format: FileFormat) -> None:
    """Writes a table as one file of the format. Lists of CSV are joined with `|`; an empty cell is a null."""
    path = folder / f"part-00000.{file_format}"
    match file_format:
        case "parquet":
            pyarrow.parquet.write_table(table, path, compression="snappy")
        case "csv":
            pyarrow.csv.write_csv(_with_joined_lists(table), path)
        case "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8")
        case "tfrecord":
            # Imported here: only this format needs TensorFlow, which takes seconds to load.
            import tensorflow as tf

            with tf.io.TFRecordWriter(str(path)) as writer:
                for example in _examples(table, tf):
                    writer.write(example)
        case _:
            assert_never(file_format)


def _with_joined_lists(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            column = table.column(index)
            joined = pc.binary_join(column.cast(pa.list_(pa.string())), LIST_SEPARATOR)
            table = table.set_column(index, field.name, joined)
    return table


def _examples(table: pa.Table, tf: Any) -> Iterator[bytes]:
    """Yields each row as a serialized tf.Example; nulls are omitted, an empty list is an empty feature."""
    makers = {field.name: _maker(field.type, tf) for field in table.schema}
    for row in table.to_pylist():
        features = {name: makers[name](value) for name, value in row.items() if value is not None}
        example = tf.train.Example(features=tf.train.Features(feature=features))
        yield example.SerializeToString(deterministic=True)


def _maker(kind: pa.DataType, tf: Any) -> Any:
    train, is_list = tf.train, pa.types.is_list(kind)
    value_type = kind.value_type if is_list else kind

    def values(value: Any) -> list[Any]:
        return value if is_list else [value]

    if pa.types.is_string(value_type):
        return lambda value: train.Feature(bytes_list=train.BytesList(value=[item.encode() for item in values(value)]))
    if pa.types.is_floating(value_type):
        return lambda value: train.Feature(float_list=train.FloatList(value=values(value)))
    return lambda value: train.Feature(int64_list=train.Int64List(value=values(value)))
