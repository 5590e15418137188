"""Selects the reader of a format."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from typing_extensions import assert_never

from components.logs.readers import csv, parquet, tfrecord
from components.logs.readers.batches import Inspection, Rows
from schemas.derived.columns import Column
from schemas.spec.data import Logs


def inspect(logs: Logs, file: BinaryIO, path: str, columns: Sequence[Column]) -> Inspection:
    """Inspects a file's head: columns, types and number of rows, as far as the format contains them."""
    match logs.format:
        case "parquet":
            return parquet.inspect(file, path, columns)
        case "csv":
            return csv.inspect(file, path, columns)
        case "tfrecord":
            return tfrecord.inspect(file, path, columns)
        case _:
            assert_never(logs.format)


def read(logs: Logs, file: BinaryIO, path: str, columns: Sequence[Column]) -> Iterator[Rows]:
    """Yields the columns of the inputs.

    Raises:
        UserError: if the file does not fit the spec.
    """
    match logs.format:
        case "parquet":
            return parquet.read(file, path, columns)
        case "csv":
            return csv.read(file, path, columns, logs.list_separator)
        case "tfrecord":
            return tfrecord.read(file, path, columns)
        case _:
            assert_never(logs.format)
