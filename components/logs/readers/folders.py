"""Columns that only the names of folders hold, as Hive and Spark write them: `country=IN/part-0.parquet`.

Folders give columns only where the spec's pattern has `country=`; a column of the file itself wins.
"""

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa

from sangam.components.logs.readers.batches import Rows
from sangam.components.logs.readers.column_types import TARGET
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import Logs, SplitLogs

_MISSING = ("", "__HIVE_DEFAULT_PARTITION__")
_NOT = {"int": "not an int", "float": "not a float"}


def folder_texts(path: str) -> dict[str, str | None]:
    """Returns the values in the names of a path's folders, by column; None for a missing one."""
    texts: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, equals, text = folder.partition("=")
        if name and equals:
            # Bytes that are not UTF-8 stay as they are.
            value = unquote(text, errors="surrogateescape")
            texts[unquote(name, errors="surrogateescape")] = None if value in _MISSING else value
    return texts


def absent_problem(column: Column, path: str, names: Sequence[str], logs: Logs) -> str | None:
    """Returns what is wrong with a column that a file lacks, and how to get it in; None if a folder gives its value.

    Args:
        column: the column.
        path: path of the file.
        names: columns of the file.
        logs: the spec's data section.
    """
    texts = folder_texts(path)
    if column.name not in texts:
        return f"is missing (got {listed(names)}); add it to the logs"
    text = texts[column.name]
    got = f"got {column.name}={text or ''}"
    # Folders of Delta Lake hold the values of columns, whatever the pattern.
    if logs.format != "delta" and column.name not in _in_patterns(logs):
        return f"is only in a folder's name ({got}); write {column.name}=* into the pattern, and it is read from there"
    if column.is_list:
        return f"is only in a folder's name ({got}), which gives one value; a list column is read from the files"
    try:
        _value(column, text)
    except pa.ArrowInvalid:
        return f"its folder's name is {_NOT[column.type]} ({got}); rename the folder, or read the column as a string"
    return None


def with_folders(rows: Rows, path: str, columns: Sequence[Column], logs: Logs) -> Rows:
    """Adds the columns that the file lacks and its folders have.

    Raises:
        UserError: a column is in neither.
    """
    names = rows.batch.schema.names
    known = frozenset(names)
    absent = [column for column in columns if column.name not in known or column.name in rows.absent]
    if not absent:
        return rows
    texts = folder_texts(path)
    # Records of TFRecord may lack a column that no folder has.
    added = [column for column in absent if column.name not in known or column.name in texts]
    if not added:
        return rows
    for column in added:
        if problem := absent_problem(column, path, names, logs):
            raise UserError(f"{path}: column '{column.name}': {problem}")
    arrays = dict(zip(names, rows.batch.columns, strict=True))
    for column in added:
        arrays[column.name] = pa.repeat(_value(column, texts[column.name]), rows.batch.num_rows)
    return Rows(
        pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)),
        rows.absent - {column.name for column in added},
        rows.num_unreadable,
        rows.unread,
    )


def _in_patterns(logs: Logs) -> frozenset[str]:
    """Returns the columns that the spec's patterns name."""
    patterns = logs.splits.patterns.values() if isinstance(logs, SplitLogs) else [logs.pattern]
    folders = [folder for pattern in patterns for folder in pattern.split("/")[:-1]]
    return frozenset(folder.partition("=")[0] for folder in folders if "=" in folder)


def _value(column: Column, text: str | None) -> pa.Scalar:
    if text is None:
        return pa.scalar(None, TARGET[column.type])
    raw = pa.scalar(text.encode(errors="surrogateescape"), pa.binary())
    return raw if column.type == "string" else raw.cast(pa.string()).cast(TARGET[column.type])
