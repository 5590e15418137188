"""A sample of the logs: rows of files of the first day, of the last and of those between, column by column."""

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sangam.components.logs.readers.folders import folder_texts
from sangam.pipelines.drafting.dialect import dialect_of
from sangam.pipelines.drafting.layout import Layout, LogFile
from sangam.pipelines.drafting.nested_columns import with_keys
from sangam.pipelines.drafting.progress import Track, untracked
from sangam.pipelines.drafting.reading import Piece, complete_columns, read_piece
from sangam.pipelines.drafting.text_types import typed
from sangam.pipelines.drafting.values import Values, joined, values_of
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import CsvDialect

MAX_ROWS, MAX_MEGABYTES = 100_000, 200
MAX_GROUPS, MAX_FILES_OF_GROUP = 30, 3
MAX_FOOTERS = 500
"""Most Parquet footers that are read for columns without missing values."""
_MOST_CHARACTERS = 128
_INDEX = re.compile(r"Unnamed: \d+|__index_level_\d+__")


@dataclass(frozen=True)
class Sample:
    """Some rows of the logs.

    Attributes:
        columns: columns that all files have, with their values in the same rows.
        refused: reasons why other columns cannot be features, by name.
        complete: columns with a value in every row of the logs, as far as the files show.
        day_starts: start of each row's day, in seconds since 1970; None for logs without days.
        num_rows: rows in the sample.
        num_rows_of_logs: approximate number of rows of all files.
        num_files: number of files that were read.
        is_whole: whether every row is in the sample.
        dialect: dialect of CSV.
    """

    columns: Mapping[str, Values]
    refused: Mapping[str, str]
    complete: frozenset[str]
    day_starts: Any
    num_rows: int
    num_rows_of_logs: int
    num_files: int
    is_whole: bool
    dialect: CsvDialect


def read_sample(data: str | Path, layout: Layout, max_rows: int = MAX_ROWS, track: Track = untracked) -> Sample:
    """Reads rows of several files: of the first day, of the last and of those between, or of each split.

    Raises:
        UserError: a file cannot be read, there are no rows, or the files of one day have different columns.
    """
    chosen = [(group, file) for group, file in _chosen(layout) if file.size_bytes]
    is_csv = layout.format == "csv" and chosen
    dialect = dialect_of(f"{data}/{chosen[0][1].path}") if is_csv else CsvDialect()
    rows_of_file = max(1, max_rows // max(1, len(chosen)))
    bytes_of_file = MAX_MEGABYTES * 10**6 // max(1, len(chosen))
    read = [
        (
            group,
            file,
            _with_folders(
                read_piece(f"{data}/{file.path}", layout.format, rows_of_file, bytes_of_file, dialect), file, layout
            ),
        )
        for group, file in track(chosen, "reading files")
    ]
    read = [(group, file, piece) for group, file, piece in read if piece.table.num_rows]
    tables = with_keys([piece.table for _, _, piece in read])
    read = [
        (group, file, replace(piece, table=table)) for (group, file, piece), table in zip(read, tables, strict=True)
    ]
    if not read:
        raise UserError(f"{data}: no rows in the logs (got {len(chosen)} files without rows); supply the rows")
    if layout.format not in ("tfrecord", "jsonl"):
        # Records may lack columns.
        _require_one_log(data, read)
    columns, refused = _columns([(file, piece) for _, file, piece in read], layout, track)
    pieces = [piece for _, _, piece in read]
    is_whole = len(chosen) == len(layout.files) and all(piece.is_whole for piece in pieces)
    read_bytes = sum(file.size_bytes for _, file, _ in read)
    all_bytes = sum(file.size_bytes for file in layout.files)
    return Sample(
        columns=columns,
        refused=refused,
        complete=_complete(data, layout, columns, is_whole),
        day_starts=_day_starts(read) if layout.is_by_day else None,
        num_rows=sum(piece.table.num_rows for piece in pieces),
        num_rows_of_logs=round(sum(piece.num_rows for piece in pieces) * all_bytes / read_bytes),
        num_files=len(read),
        is_whole=is_whole,
        dialect=dialect,
    )


def _chosen(layout: Layout) -> list[tuple[str, LogFile]]:
    groups = list(layout.groups.items())
    if layout.is_table:
        [(name, files)] = groups
        return [(name, files[place]) for place in _spread(len(files), MAX_GROUPS)]
    return [
        (name, files[place])
        for name, files in (groups[place] for place in _spread(len(groups), MAX_GROUPS))
        for place in _spread(len(files), MAX_FILES_OF_GROUP)
    ]


def _with_folders(piece: Piece, file: LogFile, layout: Layout) -> Piece:
    """Adds the columns that only the names of folders hold."""
    table = piece.table
    for name, text in folder_texts(file.path).items():
        if name not in table.column_names and (
            layout.format == "delta" or any(f"{name}=*" in path.split("/") for path in layout.patterns.values())
        ):
            table = table.append_column(name, pa.array([text] * table.num_rows, pa.string()))
    return replace(piece, table=table)


def _spread(number: int, most: int) -> list[int]:
    """Returns at most `most` positions, evenly spaced from the first to the last."""
    return sorted({round(float(place)) for place in np.linspace(0, number - 1, min(number, most))})


def _require_one_log(data: str | Path, read: Iterable[tuple[str, LogFile, Piece]]) -> None:
    """Rejects two logs in one folder: within a day or a split, all files must have the same columns."""
    first: dict[str, tuple[LogFile, set[str]]] = {}
    for group, file, piece in read:
        names = set(piece.table.column_names)
        known, columns = first.setdefault(group, (file, names))
        if names != columns:
            raise UserError(
                f"{data}: files of {group} have different columns (got {listed(sorted(names ^ columns))} in one of "
                f"{known.path}, {file.path}); give the folder of one log: data.sources joins others to it, docs/data.md"
            )


def _columns(
    read: Sequence[tuple[LogFile, Piece]], layout: Layout, track: Track
) -> tuple[dict[str, Values], dict[str, str]]:
    """Returns the columns that a spec can read, and the reasons why it cannot read the others."""
    columns, refused = {}, {}
    # pyarrow looks a name up in all names: with thousands of columns that takes minutes.
    places = [_places(piece.table.column_names) for _, piece in read]
    for name in track(dict.fromkeys(name for each in places for name in each), "finding types of columns"):
        made = _column(name, read, [each.get(name, ()) for each in places], layout)
        if isinstance(made, Values):
            columns[name] = made
        else:
            refused[name] = made
    return columns, refused


def _places(names: Iterable[str]) -> dict[str, list[int]]:
    """Returns the positions of each name."""
    places: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        places.setdefault(name, []).append(position)
    return places


def _column(
    name: str, read: Sequence[tuple[LogFile, Piece]], places: Sequence[Sequence[int]], layout: Layout
) -> Values | str:
    """Returns a column of all files, or why a spec cannot read it.

    Args:
        name: name of the column.
        read: the files.
        places: its positions in each file.
        layout: format of the files.
    """
    if not name or _INDEX.fullmatch(name) or any(name in index_columns(piece.table) for _, piece in read):
        return "the index of a pandas DataFrame"
    if len(name) > _MOST_CHARACTERS:
        return f"its name has {len(name)} characters, a spec allows 1 to {_MOST_CHARACTERS}"
    parts = []
    for (file, piece), found in zip(read, places, strict=True):
        if len(found) > 1:
            return f"{len(found)} columns of {file.path} have this name"
        # A tf.Example, or an object of JSON, omits columns without values.
        if not found and layout.format not in ("tfrecord", "jsonl"):
            return f"{file.path} does not have it"
        column = piece.table.column(found[0]).combine_chunks() if found else pa.nulls(piece.table.num_rows)
        part = values_of(name, column, layout.format)
        if isinstance(part, str):
            return part
        parts.append(part)
    made = joined(parts, layout.format)
    return made if isinstance(made, str) else typed(name, made, is_csv=layout.format == "csv")


def index_columns(table: pa.Table) -> list[str]:
    """Returns the columns that pandas wrote as the index, by the metadata of the file."""
    written = (table.schema.metadata or {}).get(b"pandas")
    found = json.loads(written).get("index_columns", []) if written else []
    return [each for each in found if isinstance(each, str)]


def _complete(data: str | Path, layout: Layout, columns: Mapping[str, Values], is_whole: bool) -> frozenset[str]:
    names = {name for name, values in columns.items() if not values.num_missing}
    if is_whole:
        return frozenset(names)
    if layout.format not in ("parquet", "delta") or len(layout.files) > MAX_FOOTERS:
        return frozenset()
    for file in layout.files:
        known = dict(complete_columns(f"{data}/{file.path}"))
        # A list column has the path of its values; an empty list is a value.
        if known:
            known |= {name: text is not None for name, text in folder_texts(file.path).items() if name not in known}
            names = {name for name in names if columns[name].is_list or known.get(name, False)}
    return frozenset(names)


def _day_starts(read: Iterable[tuple[str, LogFile, Piece]]) -> Any:
    epoch = datetime.date(1970, 1, 1)
    starts = [
        np.full(piece.table.num_rows, (datetime.date.fromisoformat(day) - epoch).days * 86_400, np.int64)
        for day, _, piece in read
    ]
    return np.concatenate(starts)
