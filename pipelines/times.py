"""Once a day at a given time, UTC: when that is, and the cron expressions that say it."""

import datetime
import re
import time
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.derived.days import Day, yesterday
from schemas.errors import UserError

LOCAL_TIME = Path("/etc/localtime")
_AT = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_KUBEFLOW_CRON = re.compile(r"0 ([0-5]?\d) ([01]?\d|2[0-3]) \* \* \*")
_DAY = datetime.timedelta(days=1)

Moment = datetime.datetime


def utc_now() -> Moment:
    """Returns the time, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)


@dataclass(frozen=True)
class Clock:
    """The time and the waiting, which tests bring with them."""

    now: Callable[[], Moment] = utc_now
    sleep: Callable[[float], None] = time.sleep


def check_time(text: str) -> str:
    """Returns a time of day, HH:MM.

    Raises:
        UserError: the text is something else.
    """
    if not _AT.fullmatch(text):
        raise UserError(f"--at: is no time of day (got {text!r}); give HH:MM in UTC, for example 02:00")
    return text


def cron_at(at: str) -> str:
    """Returns Kubeflow's cron expression for a time of day: seconds come first."""
    hours, minutes = at.split(":")
    return f"0 {int(minutes)} {int(hours)} * * *"


def time_of(cron: str) -> str | None:
    """Returns the time of day that an expression of `cron_at` stands for; None for any other expression."""
    match = _KUBEFLOW_CRON.fullmatch(cron)
    return f"{int(match[2]):02d}:{int(match[1]):02d}" if match else None


def machine_time(at: str, year: int, zone_file: Path = LOCAL_TIME) -> str:
    """Returns a time of day of UTC on this machine's clock, by which its cron goes.

    Args:
        at: HH:MM, UTC.
        year: whose changes of the clock count.
        zone_file: this machine's time zone; UTC where there is no such file.

    Raises:
        UserError: the clock is put forward and back, so that no line of cron means the same time all year.
    """
    if not zone_file.exists():
        return at
    with zone_file.open("rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file)
    hours, minutes = map(int, at.split(":"))
    months = range(1, 13)
    days = [datetime.datetime(year, month, 1, hours, minutes, tzinfo=datetime.timezone.utc) for month in months]
    times = sorted({f"{day.astimezone(zone):%H:%M}" for day in days})
    if len(times) > 1:
        raise UserError(
            f"--format cron: goes by this machine's clock, which changes with the season (got {at} UTC, "
            f"{' and '.join(times)} here); use --format systemd, or set the machine's time zone to UTC"
        )
    return times[0]


def next_due(at: str, now: Moment) -> Moment:
    """Returns the first time after `now` that it is this time of day, UTC."""
    hours, minutes = map(int, at.split(":"))
    today = now.astimezone(datetime.timezone.utc).replace(hour=hours, minute=minutes, second=0, microsecond=0)
    return today if today > now else today + _DAY


def last_due(at: str, now: Moment) -> Moment:
    """Returns the last time up to `now` that it was this time of day, UTC."""
    return next_due(at, now) - _DAY


def date_of(started: Moment) -> Day:
    """Returns the date of a run that is given none: the day (UTC) before it starts."""
    return yesterday(started.astimezone(datetime.timezone.utc).date())
