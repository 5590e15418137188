"""Finds the newest day of the logs, for errors on a day without logs."""

import glob
import posixpath
import re

from components.logs.files.listing import Storage
from schemas.derived.days import Day
from schemas.spec.data import DayLogs
from schemas.spec.patterns import DAY_FIELDS


def newest_day(logs: DayLogs, data_root: str, storage: Storage) -> Day | None:
    """Returns the newest day with a file or a folder of its name; None if there is none."""
    parts = logs.pattern.split("/")
    last = max(index for index, part in enumerate(parts) if any(field in part for field in DAY_FIELDS))
    pattern = "/".join(parts[: last + 1])
    anything = pattern
    for name, digits in zip(DAY_FIELDS, (4, 2, 2), strict=True):
        anything = anything.replace(name, "[0-9]" * digits)
    [matches] = storage.match([posixpath.join(glob.escape(data_root), anything)])
    days = (_day_of("/".join(each.path.split("/")[-last - 1 :]), pattern) for each in matches)
    return max((day for day in days if day), default=None)


def _day_of(path: str, pattern: str) -> Day | None:
    """Returns the day in a path that matches a pattern; None for an invalid one such as 2024-13-01."""
    wildcards = {"*": "[^/]*", "?": "[^/]", "{YYYY}": r"(?P<year>\d{4})", "{MM}": r"(?P<month>\d\d)"}
    wildcards["{DD}"] = r"(?P<day>\d\d)"
    pieces = re.split(r"(\{[YMD]+\}|\*|\?|\[.[^]]*\])", pattern)
    text = "".join(wildcards.get(piece) or ("." if piece[:1] == "[" else re.escape(piece)) for piece in pieces)
    match = re.fullmatch(text, path)
    try:
        return Day(*(int(match[name]) for name in ("year", "month", "day"))) if match else None
    except ValueError:
        return None
