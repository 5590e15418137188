"""Selects the reader of a format."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO, assert_never

from sangam.components.logs.readers import csv, jsonl, parquet, prediction_log, tfrecord
from sangam.components.logs.readers.batches import Inspection, Rows
from sangam.components.logs.readers.folders import absent_problem, with_folders
from sangam.components.logs.readers.forms import as_stored, with_forms
from sangam.components.logs.readers.nested import places_of
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import Logs


def inspect(logs: Logs, file: BinaryIO, path: str, columns: Sequence[Column]) -> Inspection:
    """Inspects a file's head: columns, types and number of rows, as far as the format contains them."""
    found = _inspect(logs, file, path, columns)
    if found.columns is None:
        return found
    present = places_of([column.name for column in columns], found.columns)
    absent = {
        column.name: absent_problem(column, path, found.columns, logs)
        for column in as_stored(columns, logs)
        if column.name not in present
    }
    problems = [f"{path}: column '{name}': {problem}" for name, problem in absent.items() if problem]
    return replace(found, problems=(*found.problems, *problems))


def _inspect(logs: Logs, file: BinaryIO, path: str, columns: Sequence[Column]) -> Inspection:
    match logs.format:
        case "parquet" | "delta":
            return parquet.inspect(file, path, columns, logs.columns)
        case "csv":
            return csv.inspect(file, path, columns, logs.csv)
        case "jsonl":
            return jsonl.inspect(file, path, columns)
        case "tfrecord":
            return tfrecord.inspect(file, path, columns)
        case "prediction_log":
            return prediction_log.inspect(file, path, columns)
        case _:
            assert_never(logs.format)


def read(logs: Logs, file: BinaryIO, path: str, columns: Sequence[Column]) -> Iterator[Rows]:
    """Yields the columns of the inputs, those that only the names of folders hold included.

    Raises:
        UserError: if the file does not fit the spec.
    """
    for rows in _read(logs, file, path, columns):
        yield with_forms(with_folders(rows, path, as_stored(columns, logs), logs), path, columns, logs)


def _read(logs: Logs, file: BinaryIO, path: str, columns: Sequence[Column]) -> Iterator[Rows]:
    match logs.format:
        case "parquet" | "delta":
            return parquet.read(file, path, columns)
        case "csv":
            return csv.read(file, path, as_stored(columns, logs), logs.csv, logs.list_separator)
        case "jsonl":
            return jsonl.read(file, path, as_stored(columns, logs))
        case "tfrecord":
            return tfrecord.read(file, path, columns, logs.columns)
        case "prediction_log":
            return prediction_log.read(file, path, columns, logs.columns)
        case _:
            assert_never(logs.format)
