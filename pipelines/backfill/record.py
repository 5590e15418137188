"""What a backfill remembers: `<root>/backfill/<name>/backfill.json`, written anew after every date."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from components.caching.code_digest import code_digest
from pipelines.local.request import RunRequest
from schemas.errors import UserError
from schemas.files import write_whole
from schemas.spec import digest

RECORD_FILE = "backfill.json"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricValue(_Record):
    """A task's metric on the date's evaluation days; None where it is undefined."""

    metric: str
    value: float | None


class DateRecord(_Record):
    """What became of one date.

    Attributes:
        date: YYYY-MM-DD, the last day evaluated on.
        state: `blessed`; `rejected` by a gate; `skipped`: there are no logs.
        identity: of spec and code; a date of another identity is run again.
        mode: of training.
        base_last_day: the last day that the base had learned from; None: trained from nothing.
        num_train_days: trained on by this run.
        tasks: by name.
        seconds: of the run.
        trainer_seconds: of its training.
        notes: of the run.
        summary: path of the run's summary.
    """

    date: str
    state: Literal["blessed", "rejected", "skipped"]
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
    """All dates that a ranker's backfills have ended well with, by date."""

    name: str
    dates: dict[str, DateRecord] = {}

    def with_date(self, done: DateRecord) -> "Record":
        """Returns the record with one date added or replaced."""
        dates = {**self.dates, done.date: done}
        return Record(name=self.name, dates={date: dates[date] for date in sorted(dates)})


def identity_of(request: RunRequest) -> str:
    """Returns what a date's result depends on, apart from the logs."""
    code = code_digest("pipelines.pipeline")
    return f"{digest(request.spec)[:16]}-{code[:16]}"


def read_record(folder: Path, name: str) -> Record:
    """Returns what is remembered of the ranker `name`; nothing if there is no such file.

    Raises:
        UserError: for a file that is none.
    """
    path = folder / RECORD_FILE
    if not path.exists():
        return Record(name=name)
    try:
        return Record.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UserError(
            f"{path}: is no record of a backfill of this version (got {str(error).splitlines()[0]}); move it away to "
            "run its dates again: what has not changed is taken from the cache"
        ) from error


def write_record(folder: Path, record: Record) -> Path:
    """Writes the record, whole or not at all, and returns the file's path."""
    path = folder / RECORD_FILE
    write_whole(path, record.model_dump_json(indent=2) + "\n")
    return path
