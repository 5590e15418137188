"""The record of a backfill, `<root>/backfill/<name>/backfill.json`, rewritten after every date."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sangam.components.caching.code_digest import code_digest
from sangam.pipelines.local.request import RunRequest
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import write_whole
from sangam.schemas.quantities import readable
from sangam.schemas.spec import digest

RECORD_FILE = "backfill.json"
_DATES_FILE = "dates.json"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricValue(_Record):
    """A task's metric on the date's evaluation days; None where it is undefined."""

    metric: str
    value: float | None


class DateRecord(_Record):
    """The result of one date.

    Attributes:
        date: YYYY-MM-DD, the last day evaluated on.
        state: `pushed`; `blessed` with `push.kind: none`; `refused` by a gate; `skipped` without logs.
        identity: hash of spec and code; a date of another identity is run again.
        mode: mode of training, `full` or `incremental`.
        base_last_day: last train day of the base; None: trained from scratch.
        num_train_days: number of days that this run trained on.
        summary: path of the run's summary.
    """

    date: str
    state: Literal["pushed", "blessed", "refused", "skipped"]
    identity: str
    mode: str = ""
    base_last_day: str | None = None
    num_train_days: int = 0
    tasks: dict[str, MetricValue] = {}
    seconds: float = 0.0
    trainer_seconds: float = 0.0
    notes: list[str] = []
    summary: str | None = None


class Record(_Record):
    """The finished dates of all backfills of a ranker, by date."""

    name: str
    dates: dict[str, DateRecord] = {}

    def with_date(self, done: DateRecord) -> "Record":
        """Returns the record with one date added or replaced."""
        dates = {**self.dates, done.date: done}
        return Record(name=self.name, dates={date: dates[date] for date in sorted(dates)})


def identity_of(request: RunRequest) -> str:
    """Returns a hash of all that a date's result depends on, except the logs."""
    code = code_digest("sangam.pipelines.pipeline", parts=request.spec.parts)
    return f"{digest(request.spec)[:16]}-{code[:16]}"


def read_record(folder: Path, name: str) -> Record:
    """Returns the record of the ranker `name`; an empty one if there is no file.

    Raises:
        UserError: the file is not a record of this version.
    """
    path = folder / RECORD_FILE
    if not path.exists():
        return Record(name=name)
    try:
        return Record.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UserError(
            f"{path}: is not a backfill record of this version (got {str(error).splitlines()[0]}); move it away to "
            "run its dates again: unchanged steps come from the cache"
        ) from error


def write_record(folder: Path, record: Record) -> Path:
    """Writes the record atomically and returns the file's path."""
    path = folder / RECORD_FILE
    write_whole(path, json.dumps(readable(record.model_dump(mode="json")), indent=2) + "\n")
    return path


def write_dates(folder: Path, dates: Iterable[str]) -> None:
    """Writes all dates of the running command, for `sangam ui`."""
    write_whole(folder / _DATES_FILE, json.dumps(list(dates)) + "\n")


def read_dates(folder: Path) -> list[str]:
    """Returns the dates of the last command; empty without a file."""
    try:
        return [str(date) for date in json.loads((folder / _DATES_FILE).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []
