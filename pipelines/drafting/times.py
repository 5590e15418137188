"""Columns of times: the event time, and others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sangam.pipelines.drafting.names import EVENT_TIMES, TIMES, words_of
from sangam.pipelines.drafting.values import Values

_FIRST_S, _LAST_S = 631_152_000, 4_102_444_800
"""Range of plausible times: 1990 to 2100."""
_DAY_S = 86_400
_MOST_OUTSIDE = 0.01
"""Largest share of times outside their day; a run with a larger one stops."""


@dataclass
class Times:
    """Columns of times.

    Attributes:
        event: column with the event's time; empty without one.
        why: reason for this choice.
        others: columns of other times, in seconds.
    """

    event: str = ""
    why: str = ""
    others: list[str] = field(default_factory=list)


def find_times(columns: Mapping[str, Values], day_starts: Any) -> Times:
    """Returns the columns of times.

    Args:
        columns: columns of the sample.
        day_starts: first second of each row's day; None for logs without days.
    """
    found = Times()
    seconds = []
    for name, values in columns.items():
        is_time = values.form.get("kind") == "time"
        unit = "seconds" if is_time else _unit_of(values)
        is_named = is_time or bool(TIMES & set(words_of(name)))
        is_of_day = unit == "seconds" and day_starts is not None and _outside(values, day_starts) <= _MOST_OUTSIDE
        if unit and values.kind == "int" and (is_named or is_of_day):
            seconds.append((name, is_of_day))
    by_day, is_only = day_starts is not None, len(seconds) == 1
    # A table's rows have the time that is named so, otherwise the finest one.
    order = sorted(seconds, key=lambda each: (not _is_named_as_event(each[0]), -columns[each[0]].num_different))
    for name, is_of_day in order:
        if (is_of_day or not by_day) and not found.event and not columns[name].num_missing:
            found.event = name
            found.why = _why(name, columns[name], is_of_day=is_of_day, is_only=is_only)
        else:
            found.others.append(name)
    return found


def _why(name: str, values: Values, *, is_of_day: bool, is_only: bool) -> str:
    what = "times" if values.form else "seconds since 1970"
    if is_of_day:
        return f"{what}, in the day of each log"
    if is_only:
        return f"{what}, the only ones"
    return f"{what}, by its name" if _is_named_as_event(name) else f"{what}, the finest; check"


def share_after(values: Values, event: Values) -> float:
    """Returns the share of times that are later than the event's."""
    both = values.is_present & event.is_present
    return float((values.numbers[both] > event.numbers[both]).mean()) if both.any() else 0.0


def _is_named_as_event(name: str) -> bool:
    return "_".join(words_of(name)) in EVENT_TIMES


def _unit_of(values: Values) -> str:
    if values.kind not in ("int", "float") or values.is_list or not len(values.present_numbers):
        return ""
    return "seconds" if are_seconds(values.present_numbers) else ""


def are_seconds(numbers: Any) -> bool:
    """Returns whether numbers, at least one, are all plausible times in seconds since 1970."""
    return bool(len(numbers)) and numbers.min() >= _FIRST_S and numbers.max() <= _LAST_S


def _outside(values: Values, day_starts: Any) -> float:
    """Returns the share of times outside their log's day and the adjacent days."""
    late = values.present_numbers - day_starts[values.is_present]
    return float(np.mean((late < -_DAY_S) | (late >= 2 * _DAY_S)))
