"""JSON Lines: one object per line, plain or gzip; a null or an absent key is a missing value."""

import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.json as pajson

from sangam.components.logs.readers.batches import Inspection, Rows
from sangam.components.logs.readers.column_types import TARGET
from sangam.components.logs.readers.damage import plain, unread
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column

BLOCK_BYTES = 4 * 2**20
_CHUNK_LINES = 4096
_ROW = re.compile(r"in row (\d+)")


def inspect(file: BinaryIO, path: str, columns: Sequence[Column]) -> Inspection:
    """Checks that the first line is an object; a key that it lacks may come later."""
    del columns
    try:
        first = next(lines_of(file, path), None)
        if first is None:
            return Inspection(is_empty=True)
        _require_object(first, path, 1)
    except UserError as error:
        return Inspection(problems=(str(error),))
    return Inspection()


def read(file: BinaryIO, path: str, columns: Sequence[Column]) -> Iterator[Rows]:
    """Yields the columns; a name with points is a key within objects.

    Raises:
        UserError: a line is not an object, or a value not of its column's type.
    """
    lines, num_lines = lines_of(file, path), 0
    names = [column.name for column in columns]
    while chunk := list(islice(lines, _CHUNK_LINES)):
        objects = [_require_object(line, path, num_lines + 1 + index) for index, line in enumerate(chunk)]
        seen = {key for each in objects for key in each}
        arrays, absent = [], set()
        for column in columns:
            cells = [_cell(each, column.name) for each in objects]
            if not any(_has(each, column.name) for each in objects):
                absent.add(column.name)
            arrays.append(_array(cells, column, path, num_lines))
        batch = pa.RecordBatch.from_arrays(arrays, names)
        yield Rows(batch, absent=frozenset(absent), unread=frozenset(seen - set(names)))
        num_lines += len(chunk)


def lines_of(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Yields the lines that are not blank.

    Raises:
        UserError: the file is damaged, or is one JSON array.
    """
    content, is_first = plain(file), True
    try:
        for line in content:
            if stripped := line.strip(b" \t\r\n\xef\xbb\xbf" if is_first else b" \t\r\n"):
                if is_first and stripped.startswith(b"["):
                    raise UserError(
                        f"{path}: is one JSON array (got {stripped[:20]!r} at its start); write one object per line, "
                        "as by `jq -c '.[]'`"
                    )
                is_first = False
                yield stripped
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(unread(path, error)) from None


def table_of(lines: Sequence[bytes], path: str) -> pa.Table:
    """Returns lines as a table with all their keys, and types that fit the values.

    Raises:
        UserError: a line is not an object, or one key has values of several types.
    """
    try:
        return pajson.read_json(
            io.BytesIO(b"\n".join(lines)),
            read_options=pajson.ReadOptions(
                use_threads=False, block_size=max(BLOCK_BYTES, sum(map(len, lines)) + len(lines))
            ),
        )
    except pa.ArrowInvalid as error:
        for number, line in enumerate(lines, 1):
            _require_object(line, path, number)
        where = f"line {int(match[1]) + 1}: " if (match := _ROW.search(str(error))) else ""
        raise UserError(
            f"{path}: {where}cannot be read (got: {error}); write each key with values of one type"
        ) from None


def _require_object(line: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise UserError(
            f"{path}: line {number}: is not JSON (got {line[:40]!r}: {error}); write one object per line"
        ) from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: line {number}: is not an object (got {line[:40]!r}); write one object per line")
    return found


def _cell(found: dict[str, Any], name: str) -> Any:
    if name in found:
        return found[name]
    head, _, rest = name.partition(".")
    inner = found.get(head)
    if not rest:
        return None
    if isinstance(inner, list):
        return [_cell(each, rest) if isinstance(each, dict) else None for each in inner]
    return _cell(inner, rest) if isinstance(inner, dict) else None


def _has(found: Any, name: str) -> bool:
    """Returns whether an object, or one of a list, has a key or a path of keys."""
    if isinstance(found, list):
        return any(_has(each, name) for each in found)
    if not isinstance(found, dict):
        return False
    head, _, rest = name.partition(".")
    return name in found or (bool(rest) and _has(found.get(head), rest))


def _array(cells: list[Any], column: Column, path: str, num_lines: int) -> pa.Array:
    kind = pa.list_(TARGET[column.type]) if column.is_list else TARGET[column.type]
    if column.type == "string":
        cells = [_text(cell) for cell in cells]
    elif column.type == "int" or column.is_binary:
        cells = [_whole(cell) for cell in cells]
    try:
        return pa.array(cells, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for index, cell in enumerate(cells):
            try:
                pa.array([cell], kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                raise UserError(
                    f"{path}: line {num_lines + 1 + index}: column '{column.name}': not {_A[column.type]} "
                    f"(got {json.dumps(cell, default=repr)[:60]}); {_ALLOWED[column.type]}"
                ) from None
        raise


def _text(cell: Any) -> Any:
    """Returns a text as bytes; numbers and booleans as JSON writes them."""
    if isinstance(cell, str):
        return cell.encode(errors="surrogatepass")
    if isinstance(cell, list):
        return [_text(each) for each in cell]
    return json.dumps(cell).encode() if isinstance(cell, bool | int | float) else cell


def _whole(cell: Any) -> Any:
    """Returns booleans and whole floats as integers: pandas writes 1.0 once a value is missing."""
    if isinstance(cell, list):
        return [_whole(each) for each in cell]
    return int(cell) if isinstance(cell, bool) or (isinstance(cell, float) and cell.is_integer()) else cell


_A = {"int": "an int", "float": "a float", "string": "a string"}
_ALLOWED = {"int": "whole numbers, booleans, or null", "float": "numbers or null", "string": "text or null"}
