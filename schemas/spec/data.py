"""Where the logs lie, how they are cut into days or named splits, and how much bad data is tolerated."""

import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.spec.base import FrozenModel, PositiveInt

DAY_FIELDS = ("{YYYY}", "{MM}", "{DD}")
TRAIN, VALIDATION, EVAL = "train", "validation", "eval"


def _inside_the_data_folder(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError("must be relative to the data folder and must not contain '..'")
    return pattern


def _has_each_day_field_once(pattern: str) -> str:
    if any(pattern.count(field) != 1 for field in DAY_FIELDS):
        raise ValueError("must contain {YYYY}, {MM} and {DD} once each, as in '{YYYY}-{MM}-{DD}/*.parquet'")
    return pattern


def _is_day(text: str) -> str:
    if datetime.date.fromisoformat(text).isoformat() != text:
        raise ValueError("must be a day, as in '2011-11-30'")
    return text


FilePattern = Annotated[str, Field(min_length=1), AfterValidator(_inside_the_data_folder)]
DayPattern = Annotated[FilePattern, AfterValidator(_has_each_day_field_once)]


Fraction = Annotated[float, Field(ge=0, lt=1)]
"""Of what may be wrong: from none to not quite all."""


class _Logs(FrozenModel):
    format: Literal["parquet", "csv", "tfrecord"]
    list_separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """CSV only: the character between the values of a multi-valued cell."""
    max_dropped_fraction: Fraction = 0.01
    """A run whose ingestion drops a larger share of a split's rows fails."""
    max_list_length: PositiveInt = 1000
    """Values of a longer list are cut off and counted; see docs/data.md."""
    max_id_bytes: PositiveInt = 1024
    """A longer id is taken for missing and counted; a row that must have it is dropped."""


class _Times(FrozenModel):
    """What becomes of times that cannot be right; see docs/data.md."""

    outside: Literal["clip", "drop"] = "clip"
    """`clip`: a time outside the range becomes its nearer end; `drop`: its row is left out. Both are counted."""
    max_outside_fraction: Fraction = 0.01
    """A run in which a larger share of a split's values lies outside fails: the column is in another unit, or wrong."""


class DayTimes(_Times):
    """Times of events must lie within the days of the run."""

    tolerance_days: Annotated[int, Field(ge=0, le=3660)] = 1
    """Around these days, for events that are logged late and for other time zones."""


class SplitTimes(_Times):
    """Times of events must lie between two days, as there are no days to go by."""

    earliest: Annotated[str, AfterValidator(_is_day)] = "1990-01-01"
    latest: Annotated[str, AfterValidator(_is_day)] = "2100-01-01"


MOST_DAYS = 3660
"""Ten years: more are a slip of the pen."""
Days = Annotated[int, Field(gt=0, le=MOST_DAYS)]


class Arrival(FrozenModel):
    """How a run knows that a day's logs are complete, and how long it waits for them."""

    marker: DayPattern
    """File that is written after all others of a day, for example '{YYYY}-{MM}-{DD}/_SUCCESS'; relative to the data
    folder."""
    wait_s: Annotated[int, Field(ge=0)] = 2 * 3600
    """A run whose date has no marker after so long fails."""
    poll_s: PositiveInt = 30


class DayLogs(_Logs):
    """Logs in one folder or file per day. A run for date D evaluates on the `eval_days` that end with D and
    trains on the `train_days` before them; days are never cut at random."""

    kind: Literal["days"]
    pattern: DayPattern
    train_days: Days
    eval_days: Days = 1
    validation_days: Annotated[int, Field(ge=0, le=MOST_DAYS)] = 0
    """Of the train days, the newest so many are not trained on: the trainer scores them after every epoch. Fewer than
    `train_days`. An incremental training takes them in once they are no longer the newest."""
    missing_days: Literal["error", "skip"] = "error"
    """`skip`: a day without rows is left out and reported, as long as each split keeps at least one day."""
    arrival: Arrival | None = None
    """Left out: a run takes what is there when it starts."""
    times: DayTimes = DayTimes()


class SplitLogs(_Logs):
    """Logs without dates, in named splits."""

    class Splits(FrozenModel):
        """File patterns of the splits, relative to the data folder."""

        train: FilePattern
        eval: FilePattern
        validation: FilePattern | None = None
        """Scored by the trainer after every epoch; never trained on and never used by the gates."""

    kind: Literal["splits"]
    splits: Splits
    times: SplitTimes = SplitTimes()


Logs = Annotated[DayLogs | SplitLogs, Field(discriminator="kind")]
