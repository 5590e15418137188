"""Once a day at a given time, UTC: as Kubeflow's cron says it, and when that is."""

import datetime
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from schemas.derived.days import Day
from schemas.errors import UserError

_CRON = re.compile(r"^0 ([0-5]?\d) ([01]?\d|2[0-3]) \* \* \*$")
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
    """Returns a time of the day.

    Raises:
        UserError: the text is none.
    """
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise UserError(f"--at: is no time of the day (got {text!r}); give HH:MM in UTC, for example 02:00")
    return text


def cron_at(at: str) -> str:
    """Returns the expression for a time of the day: seconds first, as Kubeflow has it."""
    hours, minutes = at.split(":")
    return f"0 {int(minutes)} {int(hours)} * * *"


def time_of(cron: str) -> str | None:
    """Returns the time of the day that an expression means; None where it is not one of `cron_at`."""
    found = _CRON.match(cron)
    return f"{int(found[2]):02d}:{int(found[1]):02d}" if found else None


def next_due(at: str, now: Moment) -> Moment:
    """Returns the first time after `now` that it is this time of the day."""
    hours, minutes = map(int, at.split(":"))
    today = now.replace(hour=hours, minute=minutes, second=0, microsecond=0)
    return today if today > now else today + _DAY


def last_due(at: str, now: Moment) -> Moment:
    """Returns the last time up to `now` that it was this time of the day."""
    return next_due(at, now) - _DAY


def date_of(started: Moment) -> Day:
    """Returns the date that a run without a given one takes: the day before it was due."""
    return (started - _DAY).date()
