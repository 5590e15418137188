"""Some rows of one file with all its columns; a small part of a large file suffices."""

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import assert_never

import pyarrow as pa

from sangam.components.arrow_files import open_parquet
from sangam.components.logs.files.light_storage import open_light
from sangam.components.logs.readers import jsonl
from sangam.components.logs.readers.csv import BLOCK_BYTES, checked_head, explained, opened
from sangam.components.logs.readers.damage import ERRORS, parquet_problem, plain, unread
from sangam.components.object_stores import is_stored
from sangam.pipelines.drafting.nested_columns import flat
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import CsvDialect
from sangam.schemas.spec.patterns import TableFormat

_BUFFER_BYTES = 2**20
_BATCH_ROWS = 256
_MOST_BYTES_OF_TEXT = 64 * 2**20
"""Bytes of a file of text that are read at once."""
PLACES = 3


@dataclass(frozen=True)
class Piece:
    """Some rows of a file.

    Attributes:
        table: all columns and fields of structs, with the types of the file.
        num_rows: rows of the whole file: from its footer, or estimated by the share of its bytes that was read.
        is_whole: whether these are all rows of the file.
    """

    table: pa.Table
    num_rows: int
    is_whole: bool


def read_piece(path: str | Path, file_format: TableFormat, max_rows: int, max_bytes: int, dialect: CsvDialect) -> Piece:
    """Reads some rows.

    Args:
        path: path or address of the file.
        file_format: format of the file.
        max_rows: most rows to read.
        max_bytes: bytes in memory at which reading ends.
        dialect: dialect of CSV.

    Raises:
        UserError: the file cannot be read as this format.
    """
    path = str(path)
    try:
        match file_format:
            case "parquet" | "delta":
                return _parquet(path, max_rows, max_bytes)
            case "csv":
                return _csv(path, max_rows, max_bytes, dialect)
            case "jsonl":
                return _jsonl(path, max_rows, max_bytes)
            case "tfrecord":
                return _tfrecord(path, max_rows, max_bytes)
            case _:
                assert_never(file_format)
    except (*ERRORS, zlib.error) as error:
        raise UserError(_problem(path, file_format, error)) from None


def columns_of(
    path: str, file_format: TableFormat, names: Sequence[str], max_rows: int, max_bytes: int, dialect: CsvDialect
) -> Piece:
    """Reads the first rows of some columns, as far as the file has them; see `read_piece`."""
    if file_format not in ("parquet", "delta"):
        piece = read_piece(path, file_format, max_rows, max_bytes, dialect)
        there = [name for name in names if piece.table.column_names.count(name) == 1]
        return replace(piece, table=piece.table.select(there))
    try:
        file = open_parquet(open_light(path) if is_stored(path) else Path(path), buffer_size=_BUFFER_BYTES)
        schema = file.schema_arrow
        there = [name for name in names if schema.names.count(name) == 1]
        batches: list[pa.RecordBatch] = []
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=there):
            batches.append(batch.slice(0, max_rows))
            max_rows, max_bytes = max_rows - batch.num_rows, max_bytes - batch.nbytes
            if max_rows <= 0 or max_bytes <= 0:
                break
        table = pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in there]))
        return Piece(table, file.metadata.num_rows, table.num_rows == file.metadata.num_rows)
    except (*ERRORS, zlib.error) as error:
        raise UserError(_problem(path, file_format, error)) from None


def _problem(path: str, file_format: TableFormat, error: Exception) -> str:
    try:
        with open_light(path) as file:
            if file_format in ("parquet", "delta"):
                return parquet_problem(file, path, error)
    except OSError as unopened:
        return f"{path}: cannot be opened (got: {unopened.strerror}); check its permissions"
    return explained(error, path) if file_format == "csv" else unread(path, error)


def complete_columns(path: str | Path) -> Mapping[str, bool]:
    """Returns for each column of a Parquet file with rows whether its footer excludes missing values.

    Raises:
        UserError: the footer cannot be read.
    """
    path = str(path)
    try:
        with open_light(path) as file:
            metadata = open_parquet(file).metadata
    except ERRORS as error:
        raise UserError(_problem(path, "parquet", error)) from None
    complete: dict[str, bool] = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            known = column.statistics if column.is_stats_set else None
            # The least text is the empty one, which is missing.
            has_empty = known is not None and known.has_min_max and known.min in ("", b"")
            is_complete = known is not None and known.has_null_count and not known.null_count and not has_empty
            complete[column.path_in_schema] = complete.get(column.path_in_schema, True) and is_complete
    return complete


def _parquet(path: str, max_rows: int, max_bytes: int) -> Piece:
    """Reads rows spread over the first row group, one in the middle and the last."""
    # Buffered: otherwise the first rows would need whole row groups.
    file = open_parquet(open_light(path) if is_stored(path) else Path(path), buffer_size=_BUFFER_BYTES)
    groups = file.metadata.num_row_groups
    places = sorted({round(place * (groups - 1) / (PLACES - 1)) for place in range(PLACES)}) if groups else []
    tables = [pa.Table.from_batches([], file.schema_arrow)]
    for place in places:
        group = file.metadata.row_group(place)
        wanted, left = -(-max_rows // len(places)), max_bytes // len(places)
        # Logs are sorted: a group's head alone may be one hour.
        share = min(1.0, wanted / max(1, group.num_rows), left / max(1, group.total_byte_size))
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[place]):
            of_batch = pa.Table.from_batches([batch]).slice(0, min(wanted, math.ceil(batch.num_rows * share)))
            tables.append(of_batch)
            wanted, left = wanted - of_batch.num_rows, left - of_batch.get_total_buffer_size()
            if wanted <= 0 or left <= 0:
                break
    schema = tables[0].schema
    table = pa.concat_tables([each.cast(schema) if each.schema != schema else each for each in tables])
    return Piece(flat(table), file.metadata.num_rows, table.num_rows == file.metadata.num_rows)


def _csv(path: str, max_rows: int, max_bytes: int, dialect: CsvDialect) -> Piece:
    """Reads the rows of the first block as texts: types are those of all files together."""
    with open_light(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = checked_head(file, path, dialect)
        file.seek(0)
        content = plain(file)
        block_bytes = max(BLOCK_BYTES, min(max_bytes, _MOST_BYTES_OF_TEXT))
        block = content.read(block_bytes)
        is_end = not content.read(1)
        share = 1.0 if is_end else file.tell() / size
        if not head or not block.strip():
            return Piece(pa.table({}), 0, True)
        file.seek(0)
        reader = opened(file, dialect, {}, block_bytes, as_text=head[0])
        batch = next(iter(reader), None)
    table = pa.Table.from_batches([batch] if batch else [], reader.schema)
    rows = table.slice(0, max_rows)
    return Piece(rows, round(table.num_rows / share), is_end and rows.num_rows == table.num_rows)


def _jsonl(path: str, max_rows: int, max_bytes: int) -> Piece:
    """Reads the first lines."""
    with open_light(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        lines, is_whole = _some(jsonl.lines_of(file, path), max_rows, max_bytes)
        share = 1.0 if is_whole else min(1.0, file.tell() / size)
    if not lines:
        return Piece(pa.table({}), 0, True)
    return Piece(flat(jsonl.table_of(lines, path)), round(len(lines) / share), is_whole)


def _tfrecord(path: str, max_rows: int, max_bytes: int) -> Piece:
    """Reads the first records; a column holds lists if a record has several values."""
    # TFX's decoder takes a second to import.
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    from sangam.components.logs.readers.tfrecord import records_of

    with open_light(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        records, is_whole = _some(records_of(file, path), max_rows, max_bytes)
        share = 1.0 if is_whole else min(1.0, file.tell() / size)
    if not records:
        return Piece(pa.table({}), 0, True)
    try:
        batch = ExamplesToRecordBatchDecoder().DecodeBatch(records)
    except RuntimeError as error:
        raise UserError(
            f"{path}: cannot be decoded (got: {error}); write tf.Examples, a column with one type"
        ) from None
    return Piece(pa.Table.from_batches([batch]), round(len(records) / share), is_whole)


def _some(every: Iterator[bytes], most: int, most_bytes: int) -> tuple[list[bytes], bool]:
    """Returns the first records, and whether they are all."""
    found: list[bytes] = []
    for record in islice(every, most):
        found.append(record)
        most_bytes -= len(record)
        if most_bytes <= 0:
            break
    return found, next(every, None) is None
