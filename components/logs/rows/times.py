"""Checks times: counts and clips those outside their range, and detects other units.

A time in milliseconds is a valid integer, which would go unnoticed: rows would seem centuries old, and expire.
"""

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from sangam.schemas.derived.days import Day, parse_day
from sangam.schemas.parts.columns import Column, TimeKind
from sangam.schemas.spec.data import DayLogs, Parts, SplitLogs

_DAY_S = 86_400
_UNITS: dict[str, tuple[int, int]] = {
    "nanoseconds": (10**9, 1),
    "microseconds": (10**6, 1),
    "milliseconds": (10**3, 1),
    "minutes": (1, 60),
    "hours": (1, 3600),
    "days": (1, _DAY_S),
}
"""Unit to (n, s): n of the unit are s seconds."""


@dataclass(frozen=True)
class TimeRange:
    """A range of times, from the first second of a day to the last of another.

    Attributes:
        first: first day.
        last: last day.
        usual: earliest usual day: an earlier time is allowed, but more likely in another unit.
        around_own_day: days allowed on each side of the rows' own day; None: the same range for all rows.
    """

    first: Day
    last: Day
    usual: Day
    around_own_day: int | None = None

    @property
    def seconds(self) -> tuple[int, int]:
        """First and last second since 1970."""
        return _second(self.first), _second(self.last) + _DAY_S - 1

    @property
    def usual_seconds(self) -> tuple[int, int]:
        """First and last usual second since 1970."""
        return _second(self.usual), self.seconds[1]

    @property
    def sides(self) -> tuple[str, str]:
        """Descriptions of times before and after the range."""
        if self.around_own_day is None:
            return f"before {self.first}", f"after {self.last}"
        return "before its day", "after its day"

    def __str__(self) -> str:
        if self.around_own_day is None:
            return f"{self.first} to {self.last}"
        return f"the day of their logs and {self.around_own_day} more on each side"


_PLAUSIBLE = TimeRange(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1), datetime.date(1990, 1, 1))
"""Range of times other than event times, such as a date of birth or the end of a contract."""


class TimeCounts(BaseModel):
    """The times of a column.

    Attributes:
        known: number of times.
        outside: number of these outside the range.
        looks_like: number of values that would be usual times, by unit.
        example: a time that is outside or unusual; None if there is none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    known: int = 0
    outside: int = 0
    looks_like: dict[str, int] = {}
    example: int | None = None

    def __add__(self, other: "TimeCounts") -> "TimeCounts":
        return TimeCounts(
            known=self.known + other.known,
            outside=self.outside + other.outside,
            looks_like=dict(Counter(self.looks_like) + Counter(other.looks_like)),
            example=other.example if self.example is None else self.example,
        )


def ranges_of(logs: Parts, day: str | None) -> dict[TimeKind, TimeRange]:
    """Returns the allowed range of times, by kind.

    Args:
        logs: the spec's data section.
        day: YYYY-MM-DD of the rows: the range of event times depends only on this day, so that a day's examples
            are the same in every run. None for logs without days.
    """
    match logs:
        case DayLogs():
            own, days = parse_day(str(day)), logs.times.tolerance_days
            tolerance = datetime.timedelta(days=days)
            first = own - min(tolerance, own - datetime.date.min)
            last = own + min(tolerance, datetime.date.max - own)
            event = TimeRange(first, last, usual=first, around_own_day=days)
        case SplitLogs():
            first, last = parse_day(logs.times.earliest), parse_day(logs.times.latest)
            event = TimeRange(first, last, usual=first)
        case _:
            assert_never(logs)
    return {"event": event, "other": _PLAUSIBLE}


@dataclass(frozen=True)
class CheckedTimes:
    """A column's times, clipped to their range.

    Attributes:
        values: int64, null where there is no time.
        is_outside: whether each row is outside, before clipping.
        wrong: number of times before and after the range, by description.
        counts: counts for the judgment of the whole split.
    """

    values: pa.Array
    is_outside: NDArray[np.bool_]
    wrong: Mapping[str, int]
    counts: TimeCounts


def check_times(values: pa.Array, column: Column, allowed: TimeRange) -> CheckedTimes:
    """Counts the times of a batch that are outside the range or look like another unit, and clips them."""
    known = np.asarray(values.is_valid(), dtype=bool)
    times: NDArray[Any] = np.asarray(values.fill_null(0))
    (first, last), (usual, _) = allowed.seconds, allowed.usual_seconds
    is_before, is_after = known & (times < first), known & (times > last)
    is_outside = is_before | is_after
    sides = dict(zip(allowed.sides, (is_before, is_after), strict=True))
    wrong = {f"{column.name} {side}": int(mask.sum()) for side, mask in sides.items() if mask.any()}
    counts = TimeCounts(
        known=int(known.sum()),
        outside=int(is_outside.sum()),
        looks_like=_looks_like(times[known], allowed),
        example=int(unusual[0]) if len(unusual := times[is_outside | (known & (times < usual))]) else None,
    )
    if wrong:
        values = pa.array(np.clip(times, first, last), pa.int64(), mask=~known)
    return CheckedTimes(values, is_outside, wrong, counts)


def _looks_like(times: NDArray[Any], allowed: TimeRange) -> dict[str, int]:
    """Returns by unit how many of the times that are unusual in seconds would be usual in that unit."""
    first, last = allowed.usual_seconds
    unusual = times[(times < first) | (times > last)]
    counts = {}
    for unit, (number, seconds) in _UNITS.items() if len(unusual) else ():
        # Python's integers, clipped to int64: no unit overflows.
        low, high = -(-first * number // seconds), last * number // seconds
        fits = int(np.count_nonzero((unusual >= max(low, -(2**63))) & (unusual <= min(high, 2**63 - 1))))
        if fits:
            counts[unit] = fits
    return counts


def times_problem(column: Column, counts: TimeCounts, allowed: TimeRange, max_outside_fraction: float) -> str | None:
    """Returns what is wrong with the times of a split; None if they can be used."""
    unit, fits = max(counts.looks_like.items(), key=lambda count: count[1], default=("", 0))
    is_other_unit = 2 * fits > counts.known
    if not is_other_unit and counts.outside <= max_outside_fraction * counts.known:
        return None
    looks = f"; they look like {unit}: log seconds since 1970" if 2 * fits > counts.outside and fits else ""
    hint = looks or (
        f"; at most {max_outside_fraction:g} of them may: correct the logs, or set data.times if the times are right"
    )
    where = f"outside {allowed}" if counts.outside else f"before {allowed.usual}"
    number = counts.outside or fits
    return f"column '{column.name}': {number} of {counts.known} times are {where} (got {counts.example}){hint}"


def _second(day: Day) -> int:
    return (day - datetime.date(1970, 1, 1)).days * _DAY_S
