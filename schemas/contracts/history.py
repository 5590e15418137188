"""Tables of counts before a day, in a folder: Transform writes them, its graph and the served model read them.

history.json      which features there are
keys-<i>.npy      int64 [n] of table i, ascending, each once
values-<i>.npy    float32 [n, features] of these keys
"""

from pathlib import Path
from typing import Literal

from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.parts.columns import IdType

FORMAT: Literal[1] = 1
FILE_NAME = "history.json"
FOLDER = "history"
"""Folder of the newest tables in the folder of Transform's graph."""


class HistoryTable(FrozenModel):
    """Features of the same ids.

    Attributes:
        by: columns of the logs and the types of their ids.
        defaults: values of an id that is not in the table, by feature in the order of the values; None: no number,
            as there was no label to take a mean of.
    """

    by: dict[str, IdType]
    defaults: dict[str, float | None]


class History(FrozenModel):
    """The file.

    Attributes:
        format: format of the folder.
        as_of: YYYY-MM-DD; only earlier days count.
        tables: tables in the order of their files.
    """

    format: Literal[1] = FORMAT
    as_of: str
    tables: tuple[HistoryTable, ...]


def history_beside(graph: str) -> History | None:
    """Returns the newest tables beside a graph of Transform; None without tables."""
    file = Path(graph, FOLDER, FILE_NAME)
    return History.model_validate_json(file.read_bytes()) if file.exists() else None


def keys_file(table: int) -> str:
    """Returns the file of a table's keys."""
    return f"keys-{table}.npy"


def values_file(table: int) -> str:
    """Returns the file of a table's values."""
    return f"values-{table}.npy"
