"""The results of readers."""

from dataclasses import dataclass

import pyarrow as pa

BATCH_ROWS = 4096


@dataclass(frozen=True)
class Rows:
    """Some rows of a file.

    Attributes:
        batch: all columns of the inputs.
        absent: columns that no record of the batch has, for formats whose files do not list their columns.
        num_unreadable: records that could not be read and are not in the batch.
        unread: columns of the records that are not in the batch, for the same formats.
    """

    batch: pa.RecordBatch
    absent: frozenset[str] = frozenset()
    num_unreadable: int = 0
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Inspection:
    """The result of inspecting a file's head.

    Attributes:
        problems: error texts with the file's path; if there are any, the rest is unknown.
        is_empty: whether it has no rows.
        num_rows: number of rows; None if the head does not contain it.
        columns: columns of the file in its order; None if the head does not contain them.
    """

    problems: tuple[str, ...] = ()
    is_empty: bool = False
    num_rows: int | None = None
    columns: tuple[str, ...] | None = None
