"""Names of the files of examples. Sorted by name, they and the rows in them are in the order of the logs."""

import re
from collections.abc import Iterable
from itertools import groupby

_DAY = re.compile(r"-(\d{4}-\d{2}-\d{2})-\d{5}-\d{5}\.gz$")


def file_name(day: str | None, source: int, part: int) -> str:
    """Returns the name of a file of examples.

    Args:
        day: YYYY-MM-DD of its rows, None for logs without days.
        source: number of the log files that its rows are from, in their order.
        part: number of the file among those of one source.
    """
    return f"data_tfrecord{f'-{day}' if day else ''}-{source:05d}-{part:05d}.gz"


def day_of(path: str) -> str:
    """Returns the day of a file's rows, YYYY-MM-DD; "" for logs without days."""
    found = _DAY.search(path)
    return found.group(1) if found else ""


def by_day(paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns the files of each day, oldest first, each day's in their order."""
    in_order = sorted(paths, key=lambda path: (day_of(path), path))
    return {day: list(of_day) for day, of_day in groupby(in_order, key=day_of)}
