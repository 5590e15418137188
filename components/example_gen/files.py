"""From a declaration, a date and a data folder to the files of each split, or to every reason why not."""

import glob
import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from typing_extensions import assert_never

from schemas.data import TRAIN, Arrival, DayLogs, Logs, SplitLogs
from schemas.days import Day, file_pattern, parse_day, window
from schemas.errors import UserError


@dataclass(frozen=True)
class FileFacts:
    """What tells that a file changed."""

    size_bytes: int
    mtime_ns: int


class Storage(Protocol):
    """What resolving needs of a file system."""

    def glob(self, pattern: str) -> list[str]:
        """Returns the paths that match, sorted."""

    def facts(self, path: str) -> FileFacts | None:
        """Returns size and time of change, None for a folder."""


@dataclass(frozen=True)
class DataFile:
    """A file to read.

    Attributes:
        path: whole path or URI.
        split: that its rows go to.
        day: YYYY-MM-DD, None for logs without dates.
        facts: when it was listed.
    """

    path: str
    split: str
    day: str | None
    facts: FileFacts


@dataclass(frozen=True)
class Files:
    """What one run reads.

    Attributes:
        date: YYYY-MM-DD, None for logs without dates.
        splits: names, in order.
        files: by split, then day, then path.
        missing_days: days of the window that have nothing to read, in order.
    """

    date: str | None
    splits: tuple[str, ...]
    files: tuple[DataFile, ...]
    missing_days: tuple[str, ...] = ()

    def of_split(self, split: str) -> list[DataFile]:
        """Returns the files of one split."""
        return [file for file in self.files if file.split == split]

    def days(self) -> dict[str, list[str]]:
        """Returns the days that each split has, none for logs without dates."""
        return {split: sorted({file.day for file in self.of_split(split) if file.day}) for split in self.splits}


def resolve(logs: Logs, date: str, data_root: str, storage: Storage, *, after: str = "") -> Files:
    """Returns the files that a run reads.

    Args:
        logs: the declaration.
        date: YYYY-MM-DD; not looked at for logs without dates.
        data_root: folder that the patterns are relative to.
        storage: where to look.
        after: YYYY-MM-DD: train only on later days of the window, as an earlier training knows the others.

    Raises:
        UserError: for a date that is none, days or splits without files (all of them at once), files in two places.
    """
    match logs:
        case DayLogs():
            return _resolve_days(logs, date, data_root, storage, after)
        case SplitLogs():
            return _resolve_splits(logs, data_root, storage)
        case _:
            assert_never(logs)


def days_of_window(logs: DayLogs, date: str) -> dict[str, list[Day]]:
    """Returns the days of each split for a run of `date`, oldest first.

    Raises:
        UserError: for a date that is none.
    """
    try:
        day = parse_day(date)
    except ValueError as error:
        raise UserError(f"date: {error}") from None
    try:
        return window(logs, day)
    except OverflowError:
        raise UserError(f"date: {logs.train_days} days before it there is no calendar (got {date})") from None


def has_files(logs: DayLogs, day: Day, data_root: str, storage: Storage) -> bool:
    """Says whether there is anything to read for a day."""
    return bool(_files_of_day(logs, day, "", data_root, storage))


def is_complete(logs: DayLogs, day: Day, data_root: str, storage: Storage) -> bool:
    """Says whether a day's marker is there, or none is declared."""
    if logs.arrival is None:
        return True
    found = storage.glob(posixpath.join(glob.escape(data_root), file_pattern(logs.arrival.marker, day)))
    # A file: of a folder nobody knows when it is whole.
    return any(storage.facts(path) is not None for path in found)


def marker_path(arrival: Arrival, day: Day, data_root: str) -> str:
    """Returns where a day's marker is looked for."""
    return posixpath.join(data_root, file_pattern(arrival.marker, day))


def without(files: Files, logs: Logs, empty_paths: Iterable[str]) -> Files:
    """Returns the files less those that hold no rows; a day that is left with none is a missing day.

    Raises:
        UserError: if a day or a split that must have rows has none.
    """
    empty = frozenset(empty_paths)
    kept = replace(files, files=tuple(file for file in files.files if file.path not in empty))
    if not isinstance(logs, DayLogs):
        return kept
    lost = {file.day for file in files.files if file.day} - {file.day for file in kept.files}
    missing = tuple(sorted({*files.missing_days, *(day for day in lost if day)}))
    _require_days(logs, kept, missing)
    return replace(kept, missing_days=missing)


def fingerprint(files: Files, data_root: str) -> str:
    """Returns a hash over every file's relative path, size and time of change."""
    rows = [
        [
            file.split,
            file.day,
            posixpath.relpath(file.path, data_root or "."),
            file.facts.size_bytes,
            file.facts.mtime_ns,
        ]
        for file in files.files
    ]
    return hashlib.sha256(json.dumps([files.date, rows]).encode()).hexdigest()


def _resolve_days(logs: DayLogs, date: str, data_root: str, storage: Storage, after: str) -> Files:
    days_of = days_of_window(logs, date)
    days_of[TRAIN] = [each for each in days_of[TRAIN] if each.isoformat() > after]
    found: list[DataFile] = []
    for split, days in days_of.items():
        for each in days:
            found += _files_of_day(logs, each, split, data_root, storage)
    _require_no_file_twice(found)
    present = {file.day for file in found}
    all_days = [each.isoformat() for days in days_of.values() for each in days]
    files = Files(date=date, splits=tuple(days_of), files=tuple(found))
    missing = tuple(sorted(each for each in all_days if each not in present))
    if missing:
        _require_days(logs, files, missing, data_root)
    return replace(files, missing_days=missing)


def _files_of_day(logs: DayLogs, day: Day, split: str, data_root: str, storage: Storage) -> list[DataFile]:
    """Returns the files of a day; none before its marker is there: they may be half of what is to come."""
    if not is_complete(logs, day, data_root, storage):
        return []
    return _listed(file_pattern(logs.pattern, day), split, day.isoformat(), data_root, storage)


def _require_days(logs: DayLogs, files: Files, missing: tuple[str, ...], data_root: str = "") -> None:
    place = f"data.pattern: {posixpath.join(data_root, logs.pattern)}"
    rows = f"rows, or no marker {logs.arrival.marker}" if logs.arrival else "rows"
    if not files.files:
        raise UserError(
            f"{place}: no {rows} on any day of the window (got none from {missing[0]} to {missing[-1]}); "
            "check the date, the data folder and the pattern"
        )
    if missing and logs.missing_days == "error":
        raise UserError(
            f"{place}: {len(missing)} of the window's days have no {rows} (got none for {', '.join(missing)}); "
            "bring these days, or declare `missing_days: skip` under data to do without them"
        )
    for split in files.splits:
        if not files.of_split(split):
            raise UserError(
                f"{place}: split '{split}' has no day left (got no {rows} for {', '.join(missing)}); "
                "each split needs at least one day, also with `missing_days: skip`"
            )


def _resolve_splits(logs: SplitLogs, data_root: str, storage: Storage) -> Files:
    patterns: Mapping[str, str] = logs.splits.model_dump(exclude_none=True)
    # The order in which the splits are used: validation stands before eval.
    names = tuple(name for name in ("train", "validation", "eval") if name in patterns)
    found: list[DataFile] = []
    problems = []
    for split in names:
        listed = _listed(patterns[split], split, None, data_root, storage)
        found += listed
        if not listed:
            place = f"data.splits.{split}"
            problems.append(
                f"{place}: no file matches (got {posixpath.join(data_root, patterns[split])}); "
                "check the data folder and the pattern, which must name files and not folders"
            )
    if problems:
        raise UserError("\n".join(problems))
    _require_no_file_twice(found)
    return Files(date=None, splits=names, files=tuple(found))


def _listed(pattern: str, split: str, day: str | None, data_root: str, storage: Storage) -> list[DataFile]:
    # Only the pattern may hold wildcards: a bracket in the data folder's own name is no wildcard.
    paths = storage.glob(posixpath.join(glob.escape(data_root), pattern))
    listed = []
    for path in sorted(paths):
        if _is_hidden(path, pattern):
            continue
        facts = storage.facts(path)
        if facts is not None:
            listed.append(DataFile(path, split, day, facts))
    return listed


def _is_hidden(path: str, pattern: str) -> bool:
    """Says whether a wildcard met a marker or a temporary file, such as _SUCCESS, .part.crc or _temporary/."""
    literal = pattern.split("/")
    parts = path.split("/")[-len(literal) :]
    return any(part.startswith(("_", ".")) and part != wanted for part, wanted in zip(parts, literal, strict=False))


def _require_no_file_twice(files: Iterable[DataFile]) -> None:
    seen: dict[str, DataFile] = {}
    for file in files:
        first = seen.setdefault(file.path, file)
        if first is not file:
            raise UserError(
                f"{file.path}: matches twice (got {_where(first)} and {_where(file)}); "
                "a row must be read once, and never be both trained on and judged on: narrow the pattern"
            )


def _where(file: DataFile) -> str:
    return f"{file.split} {file.day}" if file.day else file.split
