"""CSV of any separator, RFC 4180 quotes, plain or gzip; an empty cell is a missing value.

Without `csv.header` the first line has the names. Lines in error texts count it and leave out blank lines; a line
break within quotes counts as one line.
"""

import csv
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from sangam.components.logs.readers.batches import Inspection, Rows
from sangam.components.logs.readers.column_types import TARGET
from sangam.components.logs.readers.damage import plain, unread
from sangam.components.logs.readers.one_mark import OneMark
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.schemas.spec.data import CsvDialect

BLOCK_BYTES = 4 * 2**20
SEPARATORS = (",", ";", "\t", "|", "::")
"""Usual separators of cells."""
_TO_UTF8 = "write UTF-8, as by `iconv -f UTF-16 -t UTF-8`"
_NULL = pa.scalar(b"\\N", pa.binary())
_SPACED = 10
"""Values that must all begin with a space before that is taken for the file's style."""
_BAD_VALUE = re.compile(
    r"In CSV column #(?P<column>\d+): (?:Row #(?P<line>\d+): )?"
    r"CSV conversion error to [^:]+: invalid value '(?P<value>.*)'",
    re.DOTALL,
)
_BAD_ROW = re.compile(r"(?:Row #(?P<line>\d+): )?Expected (?P<wanted>\d+) columns, got (?P<got>\d+)")


def inspect(file: BinaryIO, path: str, columns: Sequence[Column], dialect: CsvDialect) -> Inspection:
    """Checks the header's columns and that there is a row."""
    try:
        head = checked_head(file, path, dialect, columns)
    except UserError as error:
        return Inspection(problems=(str(error),))
    if not head:
        return Inspection(is_empty=True)
    header = head[0]
    problems = [
        f"{path}: column '{column.name}': is not unique (got {count} of this name); rename the others"
        for column in columns
        if (count := header.count(column.name)) > 1
    ]
    return Inspection(problems=tuple(problems), is_empty=len(head) == 1, columns=tuple(header))


def checked_head(file: BinaryIO, path: str, dialect: CsvDialect, columns: Sequence[Column] = ()) -> list[list[str]]:
    """Returns the names of the columns and the cells of the first line, none of either without a line.

    Raises:
        UserError: the file is damaged, or of another dialect.
    """
    try:
        head = _head(file, dialect)
    except csv.Error as error:
        raise UserError(f"{path}: is not a CSV file (got: {error})") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(unread(path, error)) from None
    if any("\0" in cell for line in head for cell in line):
        raise UserError(f"{path}: is not UTF-8 (got bytes of value 0, as in UTF-16); {_TO_UTF8}")
    header = head[0] if head else [""]
    marks = (mark for mark in SEPARATORS if mark in header[0] and mark != dialect.separator)
    separator = next(marks, None)
    if separator and len(header) == 1 and header[0] not in {column.name for column in columns}:
        raise UserError(
            f"{path}: its cells are separated by {separator!r} (got {header[0][:60]!r}); "
            f"declare `csv: {{separator: {json.dumps(separator)}}}` under data"
        )
    if dialect.header and head and len(head[1]) != len(header):
        raise UserError(
            f"{path}: wrong number of cells (got {len(head[1])} in the first line); data.csv.header has {len(header)}"
        )
    return head


def _refuse_dialect(array: pa.Array, column: Column, path: str) -> None:
    """Refuses texts of other dialects, which would become ids.

    Raises:
        UserError: a text is a null of other programs, or each one begins with a space.
    """
    place = f"{path}: column '{column.name}'"
    if pc.any(pc.equal(array, _NULL)).as_py():
        raise UserError(
            f"{place}: is null as Hive and MySQL write it (got '\\N'); declare `csv: {{missing: ['\\N']}}` under data"
        )
    known = array.drop_null()
    if len(known) >= _SPACED and pc.all(pc.starts_with(known, b" ")).as_py():
        shown = known[0].as_py().decode(errors="replace")
        raise UserError(f"{place}: each value begins with a space (got '{shown}'); write none after commas")


def read(
    file: BinaryIO, path: str, columns: Sequence[Column], dialect: CsvDialect, list_separator: str | None
) -> Iterator[Rows]:
    """Yields the columns with their types in the spec.

    Args:
        file: open for reading.
        path: path of the file, for error texts.
        columns: columns of the inputs.
        dialect: how cells are written.
        list_separator: between the values in a cell of a list column.

    Raises:
        UserError: for a cell that is not of its column's type, a line with a wrong number of cells, a corrupt file.
    """
    num_lines = 0 if dialect.header else 1
    header: list[str] = []
    try:
        header = next(iter(_head(file, dialect)), [])
        file.seek(0)
        present = frozenset(header)
        columns = [column for column in columns if column.name in present]
        types = {column.name: _cells(column) for column in columns}
        reader = opened(file, dialect, types, BLOCK_BYTES)
        for batch in reader:
            for column in columns:
                if column.type == "string":
                    _refuse_dialect(batch.column(column.name), column, path)
            arrays = [
                _split(batch.column(column.name), column, list_separator, path, num_lines)
                if column.is_list
                else batch.column(column.name)
                for column in columns
            ]
            yield Rows(pa.RecordBatch.from_arrays(arrays, [column.name for column in columns]))
            num_lines += batch.num_rows
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error) as error:
        raise UserError(explained(error, path, columns, header)) from error


def opened(
    file: BinaryIO,
    dialect: CsvDialect,
    types: Mapping[str, pa.DataType],
    block_bytes: int,
    as_text: Sequence[str] = (),
) -> pacsv.CSVStreamingReader:
    """Opens the columns of a file with the given types.

    Args:
        file: open for reading, at its start.
        dialect: how cells are written.
        types: types of the columns to read, by name.
        block_bytes: bytes of a batch, and most of a line.
        as_text: names of all columns, to be read as texts; names may repeat.
    """
    is_gzip = plain(file) is not file
    separator = dialect.separator
    if len(separator) == 1:
        content = _native(file)
        content = pa.CompressedInputStream(content, "gzip") if is_gzip else content
    else:
        content, separator = pa.PythonFile(OneMark(plain(file), separator.encode()), mode="r"), OneMark.MARK.decode()
    return pacsv.open_csv(
        content,
        # One thread: only then do pyarrow's errors contain the line.
        read_options=pacsv.ReadOptions(
            use_threads=False, block_size=block_bytes, column_names=list(dialect.header) if dialect.header else None
        ),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, delimiter=separator),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(as_text, pa.string()) or dict(types),
            include_columns=list(types),
            strings_can_be_null=True,
            null_values=["", *dialect.missing],
        ),
    )


def _native(file: BinaryIO) -> pa.NativeFile:
    """Returns a file of Arrow. A thread of Arrow, which reads ahead, may still hold a Python file when the interpreter
    ends: an abort."""
    try:
        return pa.OSFile(f"/proc/self/fd/{file.fileno()}")
    except io.UnsupportedOperation:  # The file of a store has no descriptor.
        return pa.PythonFile(file, mode="r")


def _cells(column: Column) -> pa.DataType:
    """Returns the type in which a column's cells are read."""
    if column.is_list:
        return pa.binary()  # Split below.
    # pandas writes 1.0 for a label as soon as another one is missing.
    return pa.float64() if column.is_binary else TARGET[column.type]


def _head(file: BinaryIO, dialect: CsvDialect) -> list[list[str]]:
    content, separator = plain(file), dialect.separator
    if len(separator) > 1:
        content, separator = io.BufferedReader(OneMark(content, separator.encode())), OneMark.MARK.decode()
    text = io.TextIOWrapper(content, encoding="utf-8-sig", errors="replace", newline="")
    try:
        lines = (line for line in csv.reader(text, delimiter=separator) if line)
        if not dialect.header:
            return list(islice(lines, 2))
        first = next(lines, None)
        return [list(dialect.header), first] if first else []
    finally:
        # Otherwise the wrapper would close the file when it is collected.
        text.detach()


def _split(array: pa.Array, column: Column, separator: str | None, path: str, num_lines: int) -> pa.Array:
    """Splits cells into lists at the separator; empty parts are dropped."""
    if separator is None:
        raise UserError(f"data: CSV needs a list_separator for column '{column.name}' (got none)")
    cells = pc.split_pattern(array, separator.encode())
    lengths = np.asarray(pc.fill_null(pc.list_value_length(cells), 0)).astype(np.int64)
    values = cells.flatten()
    filled = np.asarray(pc.greater(pc.binary_length(values), 0), dtype=bool)
    rows = np.repeat(np.arange(len(array)), lengths)[filled]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(array)))])
    values = values.filter(pa.array(filled, pa.bool_()))
    if column.type != "string":
        values = _parsed(values, column, rows, path, num_lines)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _parsed(values: pa.Array, column: Column, rows: Any, path: str, num_lines: int) -> pa.Array:
    target = TARGET[column.type]
    try:
        return values.cast(pa.string()).cast(target)
    except pa.ArrowInvalid:
        for row, value in zip(rows, values, strict=True):
            try:
                value.cast(pa.string()).cast(target)
            except pa.ArrowInvalid:
                shown = value.as_py().decode(errors="replace")
                raise UserError(_bad_value(path, num_lines + int(row) + 1, column, shown)) from None
        raise


def explained(error: Exception, path: str, columns: Sequence[Column] = (), header: Sequence[str] = ()) -> str:
    """Turns an error of pyarrow's CSV reader into one with file, line and column."""
    text = str(error)
    match = _BAD_VALUE.search(text)
    if match and int(match["column"]) < len(header):
        name = header[int(match["column"])]
        column = next((each for each in columns if each.name == name), None)
        if column:
            return _bad_value(path, match["line"], column, match["value"])
    match = _BAD_ROW.search(text)
    if match:
        line = f"line {match['line']}: " if match["line"] else ""
        # As Spark writes them by default.
        quotes = "; in quoted cells, write quotes twice, not with a backslash" if '\\"' in text else ""
        return f"{path}: {line}wrong number of cells (got {match['got']}); the header has {match['wanted']}{quotes}"
    if "straddling object" in text:
        return f"{path}: a line is longer than {BLOCK_BYTES} bytes; look for a quote that is never closed"
    return unread(path, error)


def _bad_value(path: str, line: Any, column: Column, value: str) -> str:
    at = f"line {line}: " if line else ""
    shown = value if len(value) <= 60 else f"{value[:57]}..."
    allowed = _ALLOWED[column.type]
    if value.lower() in ("true", "false"):
        allowed = f"under data.columns, write {column.name}: {{kind: codes, values: {{'true': 1, 'false': 0}}}}"
    elif value in _NO_VALUE:
        allowed = f"declare `csv: {{missing: ['{value}']}}` under data"
    return f"{path}: {at}column '{column.name}': not {_A[column.type]} (got '{shown}'); {allowed}"


_NO_VALUE = frozenset({"\\N", "NULL", "null", "NA", "N/A", "None", "nan", "NaN"})
"""Texts that other programs write for no value."""
_A: dict[ColumnType, str] = {"int": "an int", "float": "a float", "string": "a string"}
_ALLOWED: dict[ColumnType, str] = {
    "int": f"whole numbers from {-(2**63)} to {2**63 - 1}, and an empty cell for no value",
    "float": "numbers, and an empty cell for no value",
    "string": "text",
}
