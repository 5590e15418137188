"""Times in UTC: a daily time, its next occurrence, its cron expression, the date of the run that it starts; as text."""

import datetime
import re
import time
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sangam.schemas.derived.days import Day, yesterday
from sangam.schemas.errors import UserError
from sangam.schemas.quantities import shown_seconds

LOCAL_TIME = Path("/etc/localtime")
_AT = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_KUBEFLOW_CRON = re.compile(r"0 ([0-5]?\d) ([01]?\d|2[0-3]) \* \* \*")
_DAY = datetime.timedelta(days=1)

Moment = datetime.datetime


def utc_now() -> Moment:
    """Returns the present time in UTC."""
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Clock:
    """The present time and the sleep function; tests replace both."""

    now: Callable[[], Moment] = utc_now
    sleep: Callable[[float], None] = time.sleep


def check_time(text: str) -> str:
    """Returns a time of day, HH:MM.

    Raises:
        UserError: the text is not a time of day.
    """
    if not _AT.fullmatch(text):
        raise UserError(f"--at: is not a time of day (got {text!r}); give HH:MM in UTC, for example 02:00")
    return text


def cron_at(at: str) -> str:
    """Returns the cron expression for a time of day; in Kubeflow's, seconds come first."""
    hours, minutes = at.split(":")
    return f"0 {int(minutes)} {int(hours)} * * *"


def time_of(cron: str) -> str | None:
    """Returns the time of day of an expression made by `cron_at`; None for any other expression."""
    match = _KUBEFLOW_CRON.fullmatch(cron)
    return f"{int(match[2]):02d}:{int(match[1]):02d}" if match else None


def machine_time(at: str, year: int, zone_file: Path = LOCAL_TIME) -> str:
    """Converts a time of day from UTC to this machine's clock, which cron uses.

    Args:
        at: HH:MM, UTC.
        year: year in which to check for daylight saving time.
        zone_file: this machine's time zone; UTC if there is no such file.

    Raises:
        UserError: the clock has daylight saving time, so that no cron line is right all year.
    """
    if not zone_file.exists():
        return at
    with zone_file.open("rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file)
    hours, minutes = map(int, at.split(":"))
    months = range(1, 13)
    days = [datetime.datetime(year, month, 1, hours, minutes, tzinfo=datetime.UTC) for month in months]
    times = sorted({f"{day.astimezone(zone):%H:%M}" for day in days})
    if len(times) > 1:
        raise UserError(
            f"--format cron: uses this machine's clock, which has daylight saving time (got {at} UTC, "
            f"{' and '.join(times)} here); use --format systemd, or set the machine's time zone to UTC"
        )
    return times[0]


def next_due(at: str, now: Moment) -> Moment:
    """Returns the first moment after `now` at this time of day, UTC."""
    hours, minutes = map(int, at.split(":"))
    today = now.astimezone(datetime.UTC).replace(hour=hours, minute=minutes, second=0, microsecond=0)
    return today if today > now else today + _DAY


def last_due(at: str, now: Moment) -> Moment:
    """Returns the last moment up to `now` at this time of day, UTC."""
    return next_due(at, now) - _DAY


def date_of(started: Moment) -> Day:
    """Returns the default date of a run: the day (UTC) before its start."""
    return yesterday(started.astimezone(datetime.UTC).date())


def minute(moment: Moment) -> str:
    """Returns a time to the minute, in UTC."""
    return f"{moment.astimezone(datetime.UTC):%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """Returns a duration that goes on, or an estimate, in its two largest units."""
    return shown_seconds(seconds, is_rough=True)
