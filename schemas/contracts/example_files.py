"""Names of the files of examples. Sorted by name, files and rows have the order of the logs."""

import re
from collections.abc import Iterable
from itertools import groupby

_DAY = re.compile(r"-(\d{4}-\d{2}-\d{2})-\d{5}-\d{5}\.gz$")


def file_name(day: str | None, source: int, part: int) -> str:
    """Returns the name of a file of examples.

    Args:
        day: YYYY-MM-DD of its rows, None for logs without days.
        source: number of the group of log files with its rows, in their order.
        part: number of the file within its source.
    """
    return f"data_tfrecord{f'-{day}' if day else ''}-{source:05d}-{part:05d}.gz"


def day_of(path: str) -> str:
    """Returns the day of a file's rows, YYYY-MM-DD; "" for logs without days."""
    match = _DAY.search(path)
    return match.group(1) if match else ""


def by_day(paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns the files of each day, oldest day first, in the order of the logs."""
    in_order = sorted(paths, key=lambda path: (day_of(path), path))
    return {day: list(of_day) for day, of_day in groupby(in_order, key=day_of)}
