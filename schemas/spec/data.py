"""Logs, by day or in named splits, and bounds on bad data."""

import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sangam.schemas.spec.base import FrozenModel, Name, PositiveInt
from sangam.schemas.spec.negatives import Negatives
from sangam.schemas.spec.patterns import DayPattern, FileFormat, FilePattern
from sangam.schemas.spec.sources import Source

TRAIN, VALIDATION, EVAL = "train", "validation", "eval"


def _is_day(text: str) -> str:
    if datetime.date.fromisoformat(text).isoformat() != text:
        raise ValueError("must be a day, as in '2011-11-30'")
    return text


Fraction = Annotated[float, Field(ge=0, lt=1)]
"""A tolerated share: at least 0, less than 1."""


class _Logs(FrozenModel):
    format: FileFormat
    """Format of the files; docs/data.md."""
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


class DayLogs(_Logs):
    """Logs in one folder or file per day. A run for date D evaluates on the `eval_days` that end with D and
    trains on the `train_days` before them; days are never split at random."""

    kind: Literal["days"]
    pattern: DayPattern
    """Files of a day, relative to the data folder, for example `{YYYY}-{MM}-{DD}/*.parquet`."""
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
    """Other logs, joined to these by keys and `event_time`, by name; docs/data.md."""


class SplitLogs(_Logs):
    """Logs without dates, in named splits."""

    class Splits(FrozenModel):
        """File patterns of the splits, relative to the data folder."""

        train: FilePattern
        """Files of the examples to train on."""
        eval: FilePattern
        """Files of the examples that gates judge the model on."""
        validation: FilePattern | None = None
        """Files of the examples that are scored after every epoch, and neither trained on nor judged."""

    kind: Literal["splits"]
    splits: Splits
    """File patterns of the splits."""
    times: SplitTimes = SplitTimes()
    """Bounds on times of events."""


Logs = Annotated[DayLogs | SplitLogs, Field(discriminator="kind")]
