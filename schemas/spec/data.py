"""Logs, by day, in named splits or as one table, and bounds on bad data."""

import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from sangam.schemas.parts.base import ColumnName, FrozenModel, Name, PositiveInt
from sangam.schemas.spec.forms import Form, Zone
from sangam.schemas.spec.negatives import Negatives
from sangam.schemas.spec.patterns import (
    DayFormat,
    DayPattern,
    FileFormat,
    FilePattern,
    TableFormat,
    has_each_day_field_once,
)
from sangam.schemas.spec.sources import Source, StateTable

TRAIN, VALIDATION, EVAL = "train", "validation", "eval"


def _is_day(text: str) -> str:
    if datetime.date.fromisoformat(text).isoformat() != text:
        raise ValueError("must be a day, as in '2011-11-30'")
    return text


Fraction = Annotated[float, Field(ge=0, lt=1)]
"""A tolerated share: at least 0, less than 1."""


class CsvDialect(FrozenModel):
    """How the cells of CSV files are written."""

    separator: Annotated[str, Field(min_length=1, max_length=2)] = ","
    """Text between cells, for example `;`, `|`, a tab, or `::`."""
    missing: tuple[str, ...] = ()
    """Texts that stand for no value in every column, as an empty cell does, for example `NULL` and `\\N`."""
    header: Annotated[tuple[ColumnName, ...], Field(min_length=1)] | None = None
    """Names of the columns of files without a header line. Left out: the first line has them."""


class _Logs(FrozenModel):
    csv: CsvDialect = CsvDialect()
    """Dialect of CSV files."""
    columns: dict[ColumnName, Form] = Field(default_factory=dict)
    """Forms of columns, by their names in the files: times, codes, thresholds, numbers as text. Others are numbers, ids
    and times in seconds since 1970."""
    list_separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Character between the values of a multi-valued cell; only for CSV."""
    max_dropped_fraction: Fraction = 0.01
    """Largest share of a split's rows that ingestion may drop; beyond it the run fails."""
    max_list_length: PositiveInt = 1000
    """Most values of a list; longer lists are cut and counted."""
    equal_files: Literal["error", "read"] = "error"
    """Treatment of files with the content of another, in one split or two. `error`: the run fails; `read`: their rows
    count twice, with a note."""
    max_id_bytes: PositiveInt = 1024
    """Longest id, in bytes of UTF-8. A longer id counts as missing; a row that requires it is dropped. Both are
    counted."""
    negatives: Negatives | None = None
    """Sampled rows for logs of positives only; docs/data.md#positives-only. Left out: the logs have both labels."""


class _Times(FrozenModel):
    """Treatment of impossible times."""

    outside: Literal["clip", "drop"] = "clip"
    """Treatment of a time outside the range. `clip`: it becomes the nearer end; `drop`: its row is dropped. Both are
    counted."""
    max_outside_fraction: Fraction = 0.01
    """Largest share of a split's times outside the range; beyond it the run fails, since the column has another unit or
    is wrong."""


class DayTimes(_Times):
    """Bounds on times: the days of the run."""

    tolerance_days: Annotated[int, Field(ge=0, le=3660)] = 1
    """Days allowed on each side, for events logged late and for other time zones."""


class SplitTimes(_Times):
    """Bounds on times: two days, since the logs have no dates."""

    earliest: Annotated[str, AfterValidator(_is_day)] = "1990-01-01"
    """First day of the range, as YYYY-MM-DD."""
    latest: Annotated[str, AfterValidator(_is_day)] = "2100-01-01"
    """Last day of the range, as YYYY-MM-DD."""


MOST_DAYS = 3660
"""Ten years; more is a typing error."""
Days = Annotated[int, Field(gt=0, le=MOST_DAYS)]


class Arrival(FrozenModel):
    """Sign that a day's logs are complete, and the time to wait for it."""

    marker: DayPattern
    """File that is written last on each day, relative to the data folder, for example `{YYYY}-{MM}-{DD}/_SUCCESS`."""
    wait_s: Annotated[int, Field(ge=0)] = 2 * 3600
    """Longest wait for the marker of the run's date, in seconds; after it the run fails."""
    poll_s: PositiveInt = 30
    """Seconds between two looks for the marker."""


class _ByDay(_Logs):
    train_days: Days
    """Number of days before the evaluation days, `validation_days` included."""
    eval_days: Days = 1
    """Number of days, ending with the run's date, that the model is judged on."""
    validation_days: Annotated[int, Field(ge=0, le=MOST_DAYS)] = 0
    """Number of the newest train days that are scored after every epoch instead of trained on. Incremental training
    learns from them once they are no longer the newest."""
    missing_days: Literal["error", "skip"] = "error"
    """Treatment of a day without rows. `error`: the run fails. `skip`: the day is left out and reported, as long as
    each split keeps at least one day."""
    arrival: Arrival | None = None
    """Wait for complete logs. Left out: a run reads the files that are there when it starts."""
    times: DayTimes = DayTimes()
    """Bounds on times of events."""
    sources: dict[Name, Source] = Field(default_factory=dict)
    """Other logs, joined to these by keys and `event_time`, by name; docs/data.md. Tables of data of kind `served` are
    not joined: skew is judged by them."""


class DayLogs(_ByDay):
    """Logs in one folder or file per day. A run for date D evaluates on the `eval_days` that end with D and
    trains on the `train_days` before them; days are never split at random."""

    kind: Literal["days"]
    format: DayFormat
    """Format of the files; docs/data.md."""
    pattern: DayPattern
    """Files of a day, relative to the data folder, for example `{YYYY}-{MM}-{DD}/*.parquet`."""


class ServedLogs(_ByDay):
    """The log of requests that servers write with `sangam serve --log`: a row is a candidate as the server saw it, and
    actions follow it. Otherwise as logs by day."""

    kind: Literal["served"]
    log: FilePattern
    """Folder of the log, relative to the data folder; of `format: prediction_log`, pattern of a day's files."""
    format: Literal["parquet", "prediction_log"] = "parquet"
    """Format of the files. `parquet`: those of `sangam serve --log`; `prediction_log`: TFRecord of TensorFlow Serving's
    PredictionLog, docs/data.md."""

    @model_validator(mode="after")
    def _names_its_files(self) -> "ServedLogs":
        if self.format == "prediction_log":
            has_each_day_field_once(self.log)
        return self

    @property
    def parts(self) -> DayLogs:
        """The logs that ingestion reads: the sealed files of each day, joined to the actions."""
        sources = {name: source for name, source in self.sources.items() if not isinstance(source, StateTable)}
        return self.with_tables.model_copy(update={"sources": sources})

    @property
    def with_tables(self) -> DayLogs:
        """The same, also with the tables that the servers' features come from."""
        fields = {name: getattr(self, name) for name in _ByDay.model_fields}
        return DayLogs(kind="days", format=self.format, pattern=self.pattern, **fields)

    @property
    def pattern(self) -> str:
        """Files of a day, relative to the data folder."""
        return self.log if self.format == "prediction_log" else f"{self.log.rstrip('/')}/{SEALED_FILES_OF_DAY}"


class Share(FrozenModel):
    """A share of the rows."""

    fraction: Annotated[float, Field(gt=0, le=0.5)]
    """Share of the rows: the newest by `time`, or those that a hash selects."""


class SplitLogs(_Logs):
    """Logs without dates, in named splits."""

    class Splits(FrozenModel):
        """File patterns of the splits, relative to the data folder."""

        train: FilePattern
        """Files of the examples to train on."""
        eval: FilePattern
        """Files of the examples that gates judge the model on."""
        validation: FilePattern | Share | None = None
        """Files of the examples that are scored after every epoch, and neither trained on nor judged; or a share of the
        rows of `train`, which a hash of the file's path and the row's number selects: `{fraction: 0.1}`."""

        @property
        def patterns(self) -> dict[str, str]:
            """File patterns by split, in the order of use: validation before eval."""
            named = {TRAIN: self.train, VALIDATION: self.validation, EVAL: self.eval}
            return {split: pattern for split, pattern in named.items() if isinstance(pattern, str)}

        @property
        def held_out(self) -> float:
            """Share of the train files' rows that is the validation split; 0: it has files, or there is none."""
            return self.validation.fraction if isinstance(self.validation, Share) else 0.0

    kind: Literal["splits"]
    format: FileFormat
    """Format of the files; docs/data.md."""
    splits: Splits
    """File patterns of the splits."""
    times: SplitTimes = SplitTimes()
    """Bounds on times of events."""


class NewestDays(FrozenModel):
    """The newest days."""

    days: Days
    """Number of days."""


class After(FrozenModel):
    """The rows from a day on."""

    after: Annotated[str, AfterValidator(_is_day)]
    """Last day, as YYYY-MM-DD, that is not in it."""


class TableLogs(_Logs):
    """Logs as one table, in files without dates in their paths. Rows are split by `time`, otherwise by a hash.
    Ingestion writes the rows of each day or split once; the files may grow or be replaced every day."""

    kind: Literal["table"]
    format: TableFormat
    """Format of the files; `delta`: the pattern is the folder of a Delta Lake table."""
    pattern: FilePattern
    """Files of the table, relative to the data folder, for example `orders.csv` or `*.parquet`."""
    version: Annotated[int, Field(ge=0)] | None = None
    """Version of a Delta Lake table. Left out: the newest when a run begins."""
    time: ColumnName | None = None
    """Column with the time of the event, which determines a row's day and split; `columns` has its form, if it is not
    in seconds since 1970."""
    zone: Zone = "UTC"
    """Time zone of the days."""
    by: ColumnName | None = None
    """Column whose hash determines the split of rows without `time`: rows of one value stay together. Left out: each
    row by itself, in which case a user's rows are in both splits."""
    eval: NewestDays | Share | After
    """Rows that the model is judged on. `days`: a run has a date, evaluates on the days that end with it and trains on
    those before, as with logs by day; `fraction`, `after`: a run has no date."""
    validation: NewestDays | Share | None = None
    """Rows that are scored after every epoch instead of trained on: `days` with `eval: {days: ...}`, otherwise
    `fraction`. They are the newest of those to train on."""
    train_days: Days | None = None
    """With `eval: {days: ...}`: number of days before the evaluation days. Left out: all."""
    missing_days: Literal["error", "skip"] = "skip"
    """With `eval: {days: ...}`: treatment of a day without rows, as with logs by day."""
    times: SplitTimes = SplitTimes()
    """Bounds on times of events."""

    @property
    def is_by_day(self) -> bool:
        """Whether runs have dates."""
        return isinstance(self.eval, NewestDays)

    @property
    def parts(self) -> DayLogs | SplitLogs:
        """The logs that ingestion reads: the table's rows, written by day or split."""
        fields = {name: getattr(self, name) for name in _Logs.model_fields if name not in ("csv", "columns")}
        if isinstance(self.eval, NewestDays):
            return DayLogs(
                kind="days",
                format="parquet",
                pattern=PART_OF_DAY,
                train_days=self.train_days or MOST_DAYS,
                eval_days=self.eval.days,
                validation_days=self.validation.days if isinstance(self.validation, NewestDays) else 0,
                missing_days=self.missing_days,
                **fields,
            )
        names = [TRAIN, EVAL, *([VALIDATION] if self.validation else [])]
        splits = SplitLogs.Splits.model_validate({name: f"{name}/*.parquet" for name in names})
        return SplitLogs(kind="splits", format="parquet", splits=splits, times=self.times, **fields)

    @model_validator(mode="after")
    def _fits_together(self) -> "TableLogs":
        if self.time is None and not isinstance(self.eval, Share):
            raise ValueError("eval: days and after need `time`; name the column, or use {fraction: 0.1}")
        if self.time is not None and self.by is not None:
            raise ValueError("by: has no effect with `time`, which splits the rows; remove one of them")
        if self.validation is not None and isinstance(self.validation, NewestDays) != self.is_by_day:
            raise ValueError("validation: needs the form of eval; {days: 1} with {days: ...}, else {fraction: 0.1}")
        if self.version is not None and self.format != "delta":
            raise ValueError("version: has no effect without `format: delta`; remove it")
        if self.train_days is not None and not self.is_by_day:
            raise ValueError("train_days: has no effect without `eval: {days: ...}`; remove it")
        return self


PART_OF_DAY = "{YYYY}-{MM}-{DD}/*.parquet"
"""Pattern of a table's rows of a day, where ingestion has written them."""

SEALED_FILES_OF_DAY = "{YYYY}-{MM}-{DD}/*/*.parquet"
"""Pattern of the files of requests of a day, below the folder of the log."""

Logs = Annotated[DayLogs | ServedLogs | SplitLogs | TableLogs, Field(discriminator="kind")]
Parts = DayLogs | SplitLogs
"""Logs whose files are a day's or a split's."""
