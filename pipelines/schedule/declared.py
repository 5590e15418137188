"""What is scheduled: one run of one spec a day."""

import datetime
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Protocol

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from schemas.errors import UserError
from schemas.spec.base import Name

_AT = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
UTC = datetime.timezone.utc


def _writable_in_a_line(path: str) -> str:
    # systemd and cron each read a backslash in a way of their own.
    if not path.startswith("/") or not path.isprintable() or "\\" in path:
        raise ValueError("must be an absolute path without control characters and backslashes")
    return path


LinePath = Annotated[str, AfterValidator(_writable_in_a_line)]


class Schedule(BaseModel):
    """One run a day.

    Attributes:
        name: of the spec; there is one schedule of that name.
        at: HH:MM, UTC.
        spec: file that is read anew for every run.
        data: folder of the logs.
        root: folder of everything that the runs leave.
        environment: file with variables for the runs; empty: none.
        run_as: user of a system-wide timer; empty: root.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    at: Annotated[str, Field(pattern=rf"^{_AT.pattern}$")]
    spec: LinePath
    data: LinePath
    root: LinePath
    environment: LinePath | None = None
    run_as: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")] | None = None

    def command(self) -> list[str]:
        """Returns the command that the timer starts."""
        options = ["--data", self.data, "--root", self.root]
        if self.environment:
            options += ["--environment", self.environment]
        return [executable(), "schedule", "run", self.spec, *options]

    def time(self) -> datetime.time:
        """Returns the time of day, UTC."""
        return datetime.time.fromisoformat(self.at)


class Timers(Protocol):
    """Who starts runs: systemd or cron."""

    @property
    def label(self) -> str:
        """In words."""

    def problem(self) -> str | None:
        """Returns why it cannot be used here; None if it can."""

    def rendered(self, schedule: Schedule) -> str:
        """Returns what `install` writes, for people."""

    def install(self, schedule: Schedule) -> None:
        """Installs a schedule, in the place of one of that name."""

    def installed(self) -> list[Schedule]:
        """Returns the schedules that are installed."""

    def remove(self, name: str) -> None:
        """Removes an installed schedule. A run that goes on is not stopped."""


def checked(**fields: object) -> Schedule:
    """Returns a schedule, or says what is wrong with an option.

    Raises:
        UserError: no time of day, a path that cannot be written into a line.
    """
    try:
        return Schedule.model_validate(fields)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = str(first["loc"][0]).replace("_", "-")
        allowed = {
            "at": "a time of day in UTC as HH:MM, for example 02:30",
            "run-as": "the name of a user",
        }.get(option, "an absolute path without control characters and backslashes")
        raise UserError(f"--{option}: cannot be used (got {first['input']!r}); {allowed}") from None


def parsed(text: str, place: str) -> Schedule:
    """Reads the JSON that stands beside an installed schedule.

    Raises:
        UserError: it is none of this version.
    """
    try:
        return Schedule.model_validate_json(text)
    except pydantic.ValidationError:
        raise UserError(f"{place}: is no schedule of this version (got {text[:200]!r}); remove it by hand") from None


def executable() -> str:
    """Returns the absolute path of the command `sangam` of this installation.

    Raises:
        UserError: there is none.
    """
    folder = Path(sys.executable).absolute().parent
    found = shutil.which("sangam", path=str(folder))
    if found is None:
        raise UserError(f"{folder}/sangam: no such command; install the package, as `make setup` does")
    return found


def next_start(at: datetime.time, now: datetime.datetime) -> datetime.datetime:
    """Returns when a daily schedule starts next: later than `now`."""
    today = datetime.datetime.combine(now.astimezone(UTC).date(), at, tzinfo=UTC)
    return today if today > now else today + datetime.timedelta(days=1)


def date_of(now: datetime.datetime) -> datetime.date:
    """Returns the date that a run which starts now is for: yesterday, UTC."""
    return now.astimezone(UTC).date() - datetime.timedelta(days=1)
