"""Logs that ingestion joins to the main log: actions after an event, and versions of items or users before it."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import ColumnName, FrozenModel
from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec.patterns import DayPattern, FileFormat

_MOST_WINDOW_S = 30 * 86_400
_MOST_AGE_DAYS = 3660


class SourceKey(FrozenModel):
    """A column with the same values in the main log and in the source. A row without a value has no match."""

    type: IdType
    """Type of the ids in the logs."""
    column: ColumnName | None = None
    """Column of the source. Left out: the column with the name of the key."""


class _Source(FrozenModel):
    pattern: DayPattern
    """Files of a day, relative to the data folder."""
    format: FileFormat
    """Format of the files."""
    keys: Annotated[dict[ColumnName, SourceKey], Field(min_length=1)]
    """Columns of the main log with their columns in the source. Rows match if all keys are equal."""
    time: ColumnName
    """Column of the source with the time of the row, in seconds since 1970 (UTC)."""
    marker: DayPattern | None = None
    """File that is written last on each day. A run waits for it for `data.arrival.wait_s`. Left out: no wait."""


class ActionColumn(FrozenModel):
    """A value computed from the actions in the window of a row of the main log."""

    take: Literal["happened", "count", "sum", "max", "last"]
    """Value to compute. `happened`: 1 if there is an action, otherwise 0. Without actions `sum` is 0, `max` and `last`
    are missing."""
    column: ColumnName | None = None
    """Column of the source that `sum`, `max` and `last` read; rows without a value do not count."""
    where: dict[ColumnName, str | int] = Field(default_factory=dict)
    """Columns of the source with the values that an action must have to count."""


class Actions(_Source):
    """Actions from a row's event time to `window_s` later, both included. Only tasks may read their columns."""

    kind: Literal["actions"]
    window_s: Annotated[int, Field(gt=0, le=_MOST_WINDOW_S)]
    """Seconds after a row's event time in which actions count."""
    columns: Annotated[dict[ColumnName, ActionColumn], Field(min_length=1)]
    """Columns of the examples, by name, with the values that they get."""
    incomplete: Literal["refuse", "count"] = "refuse"
    """Treatment of a window with a day that has no files yet. `refuse`: the run stops. `count`: the run goes on and
    counts the rows that may lack actions."""


class TableColumn(FrozenModel):
    """A column of a table."""

    column: ColumnName | None = None
    """Column of the source. Left out: the column with the name in the examples."""


class StateTable(_Source):
    """Versions of items or users. A row takes the newest version that is not later than its event time."""

    kind: Literal["table"]
    columns: Annotated[dict[ColumnName, TableColumn], Field(min_length=1)]
    """Columns of the examples, by name, with the columns of the source that they take."""
    max_age_days: Annotated[int, Field(gt=0, le=_MOST_AGE_DAYS)]
    """Greatest age of a version at the event, in days; the files of these days are read."""
    missing: Literal["keep", "drop"] = "keep"
    """Treatment of a row without a match: kept with missing values, or dropped. Both are counted."""


Source = Annotated[Actions | StateTable, Field(discriminator="kind")]
