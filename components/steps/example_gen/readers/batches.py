"""What readers give."""

from dataclasses import dataclass

import pyarrow as pa

BATCH_ROWS = 4096


@dataclass(frozen=True)
class Rows:
    """Some rows of a file.

    Attributes:
        batch: all declared columns.
        absent: columns that none of these records has, for formats whose files do not say what columns they have.
        num_unreadable: records met besides that could not be read and were left out.
    """

    batch: pa.RecordBatch
    absent: frozenset[str] = frozenset()
    num_unreadable: int = 0


@dataclass(frozen=True)
class Inspection:
    """What a file's head says.

    Attributes:
        problems: error texts that name the file; nothing else is known if there are any.
        is_empty: there is not a single row.
        num_rows: None if the head does not tell.
    """

    problems: tuple[str, ...] = ()
    is_empty: bool = False
    num_rows: int | None = None
