"""A join in plain Python, row by row: what the vectorized one must equal."""

from dataclasses import dataclass
from typing import Any

DAY_S = 86_400


@dataclass(frozen=True)
class Row:
    """A row of either side: the day of its file (0 is 1970-01-01), its time and key, and its values."""

    day: int
    time: int | None
    key: tuple[Any, ...]
    values: tuple[Any, ...] = ()

    @property
    def can_join(self) -> bool:
        return self.time is not None and None not in self.key


def newest_version(row: Row, versions: list[Row], max_age_days: int) -> Row | None:
    """Returns the version that a row takes; `versions` in the order of their files."""
    newest = None
    for version in versions:
        if not (row.can_join and version.can_join) or version.key != row.key:
            continue
        assert row.time is not None
        assert version.time is not None
        in_files = row.day - max_age_days <= version.day <= row.day
        is_newest = newest is None or newest.time is None or version.time >= newest.time
        if in_files and version.time <= row.time and is_newest:
            newest = version
    is_young = newest is not None and row.time - newest.time <= max_age_days * DAY_S  # type: ignore[operator]
    return newest if is_young else None


def actions_within(row: Row, actions: list[Row], window_s: int) -> list[Row]:
    """Returns the actions in a row's window by time, each once; `actions` in the order of their files."""
    last_day = row.day + -(-window_s // DAY_S)
    found: list[Row] = []
    seen = set()
    for action in actions:
        if not (row.can_join and action.can_join) or not row.day <= action.day <= last_day:
            continue
        assert row.time is not None
        assert action.time is not None
        content = (action.key, action.time, action.values)
        if content not in seen and action.key == row.key and row.time <= action.time <= row.time + window_s:
            found.append(action)
        seen.add(content)
    return sorted(found, key=lambda action: action.time or 0)
