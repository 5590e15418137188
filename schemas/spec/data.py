"""Where the logs are, how they are cut into days or named splits, and how much bad data is tolerated."""

import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.spec.base import FrozenModel, Name, PositiveInt
from schemas.spec.patterns import DayPattern, FileFormat, FilePattern
from schemas.spec.sources import Source

TRAIN, VALIDATION, EVAL = "train", "validation", "eval"


def _is_day(text: str) -> str:
    if datetime.date.fromisoformat(text).isoformat() != text:
        raise ValueError("must be a day, as in '2011-11-30'")
    return text


Fraction = Annotated[float, Field(ge=0, lt=1)]
"""A tolerated share: at least 0, less than 1."""


class _Logs(FrozenModel):
    format: FileFormat
    list_separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """CSV only: the character between the values of a multi-valued cell."""
    max_dropped_fraction: Fraction = 0.01
    """A run fails if ingestion drops a larger share of a split's rows."""
    max_list_length: PositiveInt = 1000
    """Longer lists are cut and counted; see docs/data.md."""
    max_id_bytes: PositiveInt = 1024
    """A longer id counts as missing; a row that requires it is dropped. Both are counted."""


class _Times(FrozenModel):
    """How times that cannot be right are treated; see docs/data.md."""

    outside: Literal["clip", "drop"] = "clip"
    """`clip`: a time outside the range becomes its nearer end; `drop`: its row is left out. Both are counted."""
    max_outside_fraction: Fraction = 0.01
    """A run fails if a larger share of a split's values is outside: the column has another unit, or is wrong."""


class DayTimes(_Times):
    """Times of events must be in the days of the run."""

    tolerance_days: Annotated[int, Field(ge=0, le=3660)] = 1
    """Tolerance on each side, for events logged late and for other time zones."""


class SplitTimes(_Times):
    """Times of events must be between two days, since the logs have no dates."""

    earliest: Annotated[str, AfterValidator(_is_day)] = "1990-01-01"
    latest: Annotated[str, AfterValidator(_is_day)] = "2100-01-01"


MOST_DAYS = 3660
"""Ten years; more is a typing error."""
Days = Annotated[int, Field(gt=0, le=MOST_DAYS)]


class Arrival(FrozenModel):
    """How a run knows that a day's logs are complete, and how long it waits for them."""

    marker: DayPattern
    """File that is written last on each day, for example '{YYYY}-{MM}-{DD}/_SUCCESS'; relative to the data folder."""
    wait_s: Annotated[int, Field(ge=0)] = 2 * 3600
    """A run fails if its date has no marker after this time."""
    poll_s: PositiveInt = 30


class DayLogs(_Logs):
    """Logs in one folder or file per day. A run for date D evaluates on the `eval_days` that end with D and
    trains on the `train_days` before them; days are never split at random."""

    kind: Literal["days"]
    pattern: DayPattern
    train_days: Days
    eval_days: Days = 1
    validation_days: Annotated[int, Field(ge=0, le=MOST_DAYS)] = 0
    """The newest train days, not trained on but scored after every epoch; fewer than `train_days`. Incremental
    training learns from them once they are no longer the newest."""
    missing_days: Literal["error", "skip"] = "error"
    """`skip`: a day without rows is left out and reported, as long as each split keeps at least one day."""
    arrival: Arrival | None = None
    """Left out: a run reads what is there when it starts."""
    times: DayTimes = DayTimes()
    sources: dict[Name, Source] = Field(default_factory=dict)
    """Logs that are joined to these by keys and `event_time`; see docs/data.md."""


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
