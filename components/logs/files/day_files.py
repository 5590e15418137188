"""Lists the files of days that match a pattern, once the day's marker exists."""

import glob
import posixpath
from collections.abc import Iterable, Sequence

from sangam.components.logs.files.listing import Listed, Storage, first_problems
from sangam.schemas.derived.days import Day, file_pattern
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs


def listed_days(logs: DayLogs, days: Sequence[Day], data_root: str, storage: Storage) -> list[list[Listed]]:
    """Returns the files of each day; none for a day without its marker, which may be incomplete."""
    patterns = [pattern_of(logs.pattern, day, data_root) for day in days]
    markers = [pattern_of(logs.arrival.marker, day, data_root) for day in days] if logs.arrival else []
    matches = storage.match([*patterns, *markers])
    listed = [visible(of_day, logs.pattern) for of_day in matches[: len(days)]]
    if logs.arrival:
        listed = [of_day if is_marked(mark) else [] for of_day, mark in zip(listed, matches[len(days) :], strict=True)]
    return listed


def pattern_of(pattern: str, day: Day, data_root: str) -> str:
    """Returns the pattern of a day's paths."""
    # Only the pattern may contain wildcards: brackets in the data folder's name are literal.
    return posixpath.join(glob.escape(data_root), file_pattern(pattern, day))


def is_marked(matches: Sequence[Listed]) -> bool:
    """Returns whether a marker is there."""
    # A file only: a folder may be incomplete.
    return any(each.facts for each in matches)


def visible(listed: Iterable[Listed], pattern: str) -> list[Listed]:
    """Returns the paths without markers and temporary files, such as _SUCCESS, .part.crc or _temporary/."""
    return [each for each in listed if not _is_hidden(each.path, pattern)]


def _is_hidden(path: str, pattern: str) -> bool:
    """Returns whether a wildcard matched a name that begins with _ or a dot."""
    literal = pattern.split("/")
    parts = path.split("/")[-len(literal) :]
    return any(part.startswith(("_", ".")) and part != wanted for part, wanted in zip(parts, literal, strict=False))


def require_regular(listed: Iterable[Listed]) -> None:
    """Refuses paths that are not regular files.

    Raises:
        UserError: with the first such paths.
    """
    problems = [f"{each.path}: {each.problem}" for each in listed if each.problem]
    if problems:
        raise UserError("\n".join(first_problems(problems)))
