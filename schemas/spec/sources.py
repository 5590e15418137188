"""Logs that ingestion joins to the main log: actions after an event, and tables as they were at the event's time."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import ColumnName, FrozenModel
from schemas.spec.features import IdType
from schemas.spec.patterns import DayPattern, FileFormat

_MOST_WINDOW_S = 30 * 86_400
_MOST_AGE_DAYS = 3660


class SourceKey(FrozenModel):
    """A column with the same values in the main log and in the source. A row without a value has no match."""

    type: IdType
    column: ColumnName | None = None
    """Its name in the source; the name in the main log when left out."""


class _Source(FrozenModel):
    pattern: DayPattern
    format: FileFormat
    keys: Annotated[dict[ColumnName, SourceKey], Field(min_length=1)]
    """By name in the main log. Rows belong together if all keys are equal."""
    time: ColumnName
    """Column of the source with the time of the row, seconds since 1970 (UTC)."""
    marker: DayPattern | None = None
    """File that is written last on each day. A run waits for that of its date, as `arrival` says for the main log."""


class ActionColumn(FrozenModel):
    """What becomes of the actions within the window of one row of the main log."""

    take: Literal["happened", "count", "sum", "max", "last"]
    """`happened`: 1 if there is an action, else 0. `sum` is 0 without actions; `max` and `last` are missing."""
    column: ColumnName | None = None
    """Column of the source that sum, max and last take; rows without a value do not count."""
    where: dict[ColumnName, str | int] = Field(default_factory=dict)
    """Only actions with these values in these columns of the source."""


class Actions(_Source):
    """Actions from a row's event time to `window_s` later, both included. Only tasks may read their columns."""

    kind: Literal["actions"]
    window_s: Annotated[int, Field(gt=0, le=_MOST_WINDOW_S)]
    columns: Annotated[dict[ColumnName, ActionColumn], Field(min_length=1)]
    """By name in the examples."""
    incomplete: Literal["refuse", "count"] = "refuse"
    """If a day within a window has no files yet: stop the run, or go on and count the rows that may lack actions."""


class TableColumn(FrozenModel):
    """A column of a table."""

    column: ColumnName | None = None
    """Its name in the source; the name in the examples when left out."""


class StateTable(_Source):
    """Versions of items or users. A row takes the newest version that is not later than its event time."""

    kind: Literal["table"]
    columns: Annotated[dict[ColumnName, TableColumn], Field(min_length=1)]
    """By name in the examples."""
    max_age_days: Annotated[int, Field(gt=0, le=_MOST_AGE_DAYS)]
    """An older version is no match; the files of so many days before an event are read."""
    missing: Literal["keep", "drop"] = "keep"
    """A row without a match: keep it with missing values, or drop it. Both are counted."""


Source = Annotated[Actions | StateTable, Field(discriminator="kind")]
