"""Some rows of one file with all its columns; a small part of a large file suffices."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import assert_never

import pyarrow as pa
import pyarrow.csv as pacsv

from sangam.components.arrow_files import open_parquet
from sangam.components.logs.readers.csv import BLOCK_BYTES, checked_head, explained
from sangam.components.logs.readers.damage import ERRORS, parquet_problem, plain, unread
from sangam.schemas.errors import UserError
from sangam.schemas.spec.patterns import FileFormat

_BUFFER_BYTES = 2**20
_BATCH_ROWS = 256
PLACES = 3


@dataclass(frozen=True)
class Piece:
    """Some rows of a file.

    Attributes:
        table: all columns, with the types of the file.
        num_rows: rows of the whole file: from its footer, or estimated by the share of its bytes that was read.
        is_whole: whether these are all rows of the file.
    """

    table: pa.Table
    num_rows: int
    is_whole: bool


def read_piece(path: Path, file_format: FileFormat, max_rows: int, max_bytes: int) -> Piece:
    """Reads some rows.

    Args:
        path: path of the file.
        file_format: format of the file.
        max_rows: most rows to read.
        max_bytes: bytes in memory at which reading ends; at most 4 MiB of CSV.

    Raises:
        UserError: the file cannot be read as this format.
    """
    try:
        match file_format:
            case "parquet":
                return _parquet(path, max_rows, max_bytes)
            case "csv":
                return _csv(path, max_rows)
            case "tfrecord":
                return _tfrecord(path, max_rows, max_bytes)
            case _:
                assert_never(file_format)
    except (*ERRORS, zlib.error) as error:
        raise UserError(_problem(path, file_format, error)) from None


def _problem(path: Path, file_format: FileFormat, error: Exception) -> str:
    try:
        with path.open("rb") as file:
            if file_format == "parquet":
                return parquet_problem(file, str(path), error)
    except OSError as unopened:
        return f"{path}: cannot be opened (got: {unopened.strerror}); check its permissions"
    return explained(error, str(path)) if file_format == "csv" else unread(str(path), error)


def complete_columns(path: Path) -> Mapping[str, bool]:
    """Returns for each column of a Parquet file with rows whether its footer excludes missing values.

    Raises:
        UserError: the footer cannot be read.
    """
    try:
        metadata = open_parquet(path).metadata
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


def _parquet(path: Path, max_rows: int, max_bytes: int) -> Piece:
    """Reads the first rows of the first row group, of one in the middle and of the last."""
    # Buffered: otherwise the first rows would need whole row groups.
    file = open_parquet(path, buffer_size=_BUFFER_BYTES)
    groups = file.metadata.num_row_groups
    places = sorted({round(place * (groups - 1) / (PLACES - 1)) for place in range(PLACES)}) if groups else []
    tables = [file.schema_arrow.empty_table()]
    for place in places:
        wanted, left = -(-max_rows // len(places)), max_bytes // len(places)
        for batch in file.iter_batches(batch_size=min(wanted, _BATCH_ROWS), row_groups=[place]):
            tables.append(pa.Table.from_batches([batch]).slice(0, wanted))
            wanted, left = wanted - batch.num_rows, left - batch.get_total_buffer_size()
            if wanted <= 0 or left <= 0:
                break
    table = pa.concat_tables(
        [each.cast(tables[0].schema) if each.schema != tables[0].schema else each for each in tables]
    )
    return Piece(table, file.metadata.num_rows, table.num_rows == file.metadata.num_rows)


def _csv(path: Path, max_rows: int) -> Piece:
    """Reads the rows of the first block, with types inferred from it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        checked_head(file, str(path))
        file.seek(0)
        content = plain(file)
        is_gzip = content is not file
        block = content.read(BLOCK_BYTES)
        is_end = not content.read(1)
        share = 1.0 if is_end else file.tell() / size
    if not block.strip():
        return Piece(pa.table({}), 0, True)
    # A Python file may be held by a thread of Arrow when the interpreter ends: an abort.
    native = pa.OSFile(str(path))
    # A stream: its batches end behind a row, also where rows have line breaks in quotes.
    reader = pacsv.open_csv(
        pa.CompressedInputStream(native, "gzip") if is_gzip else native,
        read_options=pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(strings_can_be_null=True, null_values=[""]),
    )
    batch = next(iter(reader), None)
    table = pa.Table.from_batches([batch] if batch else [], reader.schema)
    rows = table.slice(0, max_rows)
    return Piece(rows, round(table.num_rows / share), is_end and rows.num_rows == table.num_rows)


def _tfrecord(path: Path, max_rows: int, max_bytes: int) -> Piece:
    """Reads the first records; a column holds lists if a record has several values."""
    # TFX's decoder takes a second to import.
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    from sangam.components.logs.readers.tfrecord import records_of

    size = path.stat().st_size
    with path.open("rb") as file:
        every = records_of(file, str(path))
        records: list[bytes] = []
        for record in islice(every, max_rows):
            records.append(record)
            max_bytes -= len(record)
            if max_bytes <= 0:
                break
        is_whole = next(every, None) is None
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
