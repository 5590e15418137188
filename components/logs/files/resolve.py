"""Resolves the spec's data section and a date to the files of each split."""

import glob
import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from sangam.components.logs.files.day_files import (
    is_marked,
    listed_days,
    pattern_of,
    require_regular,
    visible,
)
from sangam.components.logs.files.listing import FileFacts, Storage
from sangam.components.logs.files.newest import newest_day
from sangam.components.logs.files.source_files import logs_of, source_files
from sangam.components.logs.files.table_formats import refuse_tables
from sangam.schemas.derived.days import Day, file_pattern, parse_day
from sangam.schemas.derived.days import window as window_of
from sangam.schemas.derived.history import days_of_history
from sangam.schemas.derived.negatives import earlier_days
from sangam.schemas.derived.sources import sources_of
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import EVAL, TRAIN, VALIDATION, DayLogs, Parts, SplitLogs

HISTORY = "history"
"""Split name of files that are read only for history features."""
CANDIDATES = "/candidates"
"""Split name of files that are read only for the items of data.negatives; no source can have it."""


@dataclass(frozen=True)
class DataFile:
    """A file to read.

    Attributes:
        path: full path or URI.
        split: split of its rows.
        day: YYYY-MM-DD, None for logs without dates.
        facts: size and time when it was listed.
    """

    path: str
    split: str
    day: str | None
    facts: FileFacts


@dataclass(frozen=True)
class Files:
    """The files of a run.

    Attributes:
        date: YYYY-MM-DD, None for logs without dates.
        splits: names, in order.
        files: files by split, then day, then path.
        missing_days: days of the window without files, in order.
        sources: files joined to `files`, with the name of the source as split; by name, then day, then path. Files of
            earlier days whose items are candidates have the split `CANDIDATES`.
        history: history of days before those of the splits, with `HISTORY` as split; by day, then path.
    """

    date: str | None
    splits: tuple[str, ...]
    files: tuple[DataFile, ...]
    missing_days: tuple[str, ...] = ()
    sources: tuple[DataFile, ...] = ()
    history: tuple[DataFile, ...] = ()

    @property
    def all_files(self) -> list[DataFile]:
        """Returns every file that is read, once: two sources may read the same."""
        return list({file.path: file for file in (*self.sources, *self.history, *self.files)}.values())

    @property
    def of_log(self) -> list[DataFile]:
        """Returns the files of the main log, each once: two splits may share a file's rows; it counts to the first."""
        first: dict[str, DataFile] = {}
        for file in (*self.history, *self.files):
            first.setdefault(file.path, file)
        return list(first.values())

    def of_split(self, split: str) -> list[DataFile]:
        """Returns the files of one split."""
        return [file for file in self.files if file.split == split]

    def days(self) -> dict[str, list[str]]:
        """Returns the days of each split, empty for logs without dates."""
        return {split: sorted({file.day for file in self.of_split(split) if file.day}) for split in self.splits}


def resolve(
    logs: Parts, date: str, data_root: str, storage: Storage, *, after: str = "", inputs: Inputs | None = None
) -> Files:
    """Returns the files that a run reads.

    Args:
        logs: the spec's data section.
        date: YYYY-MM-DD; unused for logs without dates.
        data_root: folder that the patterns are relative to.
        storage: storage of the logs.
        after: YYYY-MM-DD: leave out the days of the window up to this one, which the base was trained on.
        inputs: inputs whose history features determine which earlier days are read; None: no history.

    Raises:
        UserError: for an invalid date, days or splits without files (all at once), special files, files that match
            twice, and folders of Delta Lake, Apache Iceberg and Apache Hudi.
    """
    match logs:
        case DayLogs():
            files = _resolve_days(logs, date, data_root, storage, after, inputs)
        case SplitLogs():
            files = _resolve_splits(logs, data_root, storage)
        case _:
            assert_never(logs)
    refuse_tables(_parquet_files(logs, files), storage)
    return files


def _parquet_files(logs: Parts, files: Files) -> list[str]:
    """Returns the first and last Parquet file of each log: all its files are in one table, or each day is one."""
    sources = sources_of(logs)
    paths: dict[str, list[str]] = {}
    for file in (*files.history, *files.files, *files.sources):
        source = sources.get(file.split)
        if (source or logs).format == "parquet":
            paths.setdefault(file.split if source else "", []).append(file.path)
    return [path for of_log in paths.values() for path in (of_log[0], of_log[-1])]


def days_of_window(logs: DayLogs, date: str) -> dict[str, list[Day]]:
    """Returns the days of each split for a run of `date`, oldest first.

    Raises:
        UserError: for an invalid date.
    """
    try:
        day = parse_day(date)
    except ValueError as error:
        raise UserError(f"date: {error}") from None
    try:
        return window_of(logs, day)
    except OverflowError:
        raise UserError(
            f"date: the window of {logs.train_days} days before it begins before year 1 (got {date})"
        ) from None


def days_with_files(logs: DayLogs, days: Iterable[Day], data_root: str, storage: Storage) -> list[Day]:
    """Returns the days that have files, in order."""
    days = list(days)
    return [day for day, listed in zip(days, listed_days(logs, days, data_root, storage), strict=True) if listed]


def require_evaluation_days(logs: DayLogs, date: str, data_root: str, storage: Storage) -> None:
    """Checks only the evaluation days, for a run whose base is not known yet.

    Raises:
        UserError: for an invalid date, and days without files.
    """
    days = days_of_window(logs, date)[EVAL]
    present = days_with_files(logs, days, data_root, storage)
    missing = [str(day) for day in days if day not in present]
    if not present:
        raise UserError(_no_files(logs, missing, data_root, storage))
    if missing and logs.missing_days == "error":
        raise UserError(_missing_days(logs, missing, data_root))


def has_files(logs: DayLogs, day: Day, data_root: str, storage: Storage) -> bool:
    """Returns whether a day has files."""
    return bool(days_with_files(logs, [day], data_root, storage))


def absent_markers(logs: DayLogs, day: Day, data_root: str, storage: Storage) -> list[str]:
    """Returns the paths of a day's missing markers: of the main log, and of its sources."""
    all_logs = [logs, *(logs_of(logs, source) for _, source in sorted(logs.sources.items()))]
    markers = [each.arrival.marker for each in all_logs if each.arrival]
    matches = storage.match([pattern_of(marker, day, data_root) for marker in markers])
    return [
        posixpath.join(data_root, file_pattern(marker, day))
        for marker, found in zip(markers, matches, strict=True)
        if not is_marked(found)
    ]


def without(files: Files, logs: Parts, empty_paths: Iterable[str]) -> Files:
    """Returns the files without the empty ones; a day with only empty files becomes a missing day.

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


def fingerprint(files: Files, data_root: str, digests: Mapping[str, str]) -> str:
    """Returns a hash over every file's relative path and content.

    Args:
        files: files of the run.
        data_root: folder that paths are relative to.
        digests: digests of the files' content, by path.
    """
    rows = [
        [file.split, file.day, posixpath.relpath(file.path, data_root or "."), digests[file.path]]
        for file in (*files.files, *files.history, *files.sources)
    ]
    return hashlib.sha256(json.dumps([files.date, rows]).encode()).hexdigest()


def changed_files(before: Files, after: Files) -> list[str]:
    """Returns a text for each file that differs between two listings.

    Files that come to a day after the run's date do not count: a window reaches into that day, which is not over.
    """
    first = {file.path: file.facts for file in before.all_files}
    second = {file.path: file.facts for file in after.all_files}
    later = {file.path for file in after.all_files if before.date and file.day and file.day > before.date}
    texts = {path: "was added" for path in second.keys() - first.keys() - later}
    texts |= {path: "was removed" for path in first.keys() - second.keys()}
    for path in first.keys() & second.keys():
        if first[path] != second[path]:
            texts[path] = f"was changed (got {first[path].size_bytes} bytes, then {second[path].size_bytes})"
    return [f"{path}: {texts[path]}" for path in sorted(texts)]


def _resolve_days(
    logs: DayLogs, date: str, data_root: str, storage: Storage, after: str, inputs: Inputs | None
) -> Files:
    days_of = days_of_window(logs, date)
    window = days_of[TRAIN]
    days_of[TRAIN] = [each for each in window if each.isoformat() > after]
    split_days = [(split, each) for split, days in days_of.items() for each in days]
    listed = listed_days(logs, [each for _, each in split_days], data_root, storage)
    require_regular(each for of_day in listed for each in of_day)
    files_of_days = [
        DataFile(each.path, split, day.isoformat(), each.facts)
        for (split, day), of_day in zip(split_days, listed, strict=True)
        for each in of_day
        if each.facts
    ]
    first = min(days_of[TRAIN], default=days_of[EVAL][0])
    earlier = days_of_history(inputs, window, first) if inputs else []
    history = _files_beside(logs, earlier, data_root, storage, HISTORY)
    _require_no_file_twice([*history, *files_of_days])
    present = {file.day for file in files_of_days if file.day}
    all_days = [each.isoformat() for days in days_of.values() for each in days]
    files = Files(date=date, splits=tuple(days_of), files=tuple(files_of_days))
    missing = tuple(sorted(each for each in all_days if each not in present))
    if not files_of_days:
        raise UserError(_no_files(logs, missing, data_root, storage))
    if missing:
        _require_days(logs, files, missing, data_root)
    days = [parse_day(day) for day in sorted(present.union(file.day for file in history if file.day))]
    joined = source_files(logs, days, data_root, storage)
    of_sources = [DataFile(each.path, name, day.isoformat(), each.facts) for name, day, each in joined if each.facts]
    read = {day for day in present if day}
    others = {each for day in read for each in earlier_days(logs, parse_day(day))} - set(map(parse_day, read))
    of_sources += _files_beside(logs, sorted(others), data_root, storage, CANDIDATES)
    return replace(files, missing_days=missing, sources=tuple(of_sources), history=history)


def _files_beside(
    logs: DayLogs, days: Sequence[Day], data_root: str, storage: Storage, split: str
) -> tuple[DataFile, ...]:
    """Returns the files of days outside the splits, of those that have some."""
    listed = listed_days(logs, days, data_root, storage)
    require_regular(each for of_day in listed for each in of_day)
    return tuple(
        DataFile(each.path, split, day.isoformat(), each.facts)
        for day, of_day in zip(days, listed, strict=True)
        for each in of_day
        if each.facts
    )


def _no_files(logs: DayLogs, missing: Sequence[str], data_root: str, storage: Storage) -> str:
    newest = newest_day(logs, data_root, storage)
    hint = f"the newest logs are of {newest}: " if newest else ""
    unpadded = logs.pattern.replace("{MM}", "{M}").replace("{DD}", "{D}")
    if not newest and newest_day(logs.model_copy(update={"pattern": unpadded}), data_root, storage):
        hint = f"its days have no leading zeros: write {unpadded}; or "
    days = f"from {missing[0]} to {missing[-1]}" if len(missing) > 1 else f"for {missing[0]}"
    return (
        f"data.pattern: {posixpath.join(data_root, logs.pattern)}: no {_rows(logs)} on any day of the window (got none "
        f"{days}); {hint}check the date (or the clock that gave it), the data folder and the pattern"
    )


def _missing_days(logs: DayLogs, missing: Sequence[str], data_root: str) -> str:
    return (
        f"data.pattern: {posixpath.join(data_root, logs.pattern)}: {len(missing)} of the window's days have no "
        f"{_rows(logs)} (got none for {', '.join(missing)}); supply these days, or set `missing_days: skip` under data"
    )


def _rows(logs: DayLogs) -> str:
    return f"rows, or no marker {logs.arrival.marker}" if logs.arrival else "rows"


def _require_days(logs: DayLogs, files: Files, missing: tuple[str, ...], data_root: str = "") -> None:
    place = f"data.pattern: {posixpath.join(data_root, logs.pattern)}"
    rows = _rows(logs)
    if not files.files:
        raise UserError(f"{place}: no {rows} on any day of the window (got none from {missing[0]} to {missing[-1]})")
    if missing and logs.missing_days == "error":
        raise UserError(_missing_days(logs, missing, data_root))
    for split in files.splits:
        if not files.of_split(split):
            raise UserError(
                f"{place}: split '{split}' has no day left (got no {rows} for {', '.join(missing)}); "
                "each split needs at least one day, even with `missing_days: skip`"
            )


def _resolve_splits(logs: SplitLogs, data_root: str, storage: Storage) -> Files:
    patterns = logs.splits.patterns
    names = tuple(patterns)
    all_files: list[DataFile] = []
    problems = []
    listed = storage.match([posixpath.join(glob.escape(data_root), patterns[split]) for split in names])
    shown = [visible(of_split, patterns[split]) for split, of_split in zip(names, listed, strict=True)]
    require_regular(each for of_split in shown for each in of_split)
    for split, of_split in zip(names, shown, strict=True):
        all_files += [DataFile(each.path, split, None, each.facts) for each in of_split if each.facts]
        if not of_split:
            key = f"data.splits.{split}"
            problems.append(
                f"{key}: no file matches (got {posixpath.join(data_root, patterns[split])}); "
                "check the data folder and the pattern"
            )
    if problems:
        raise UserError("\n".join(problems))
    _require_no_file_twice(all_files)
    if not logs.splits.held_out:
        return Files(date=None, splits=names, files=tuple(all_files))
    # Each of the two splits reads its rows of these files.
    shared = [replace(file, split=VALIDATION) for file in all_files if file.split == TRAIN]
    in_order = sorted([*all_files, *shared], key=lambda file: (TRAIN, VALIDATION, EVAL).index(file.split))
    return Files(date=None, splits=(TRAIN, VALIDATION, EVAL), files=tuple(in_order))


def _require_no_file_twice(files: Iterable[DataFile]) -> None:
    seen: dict[str, DataFile] = {}
    for file in files:
        first = seen.setdefault(file.path, file)
        if first is not file:
            raise UserError(
                f"{file.path}: matches twice (got {_where(first)} and {_where(file)}); "
                "a row must be read once, and not be in both training and evaluation: narrow the pattern"
            )


def _where(file: DataFile) -> str:
    return f"{file.split} {file.day}" if file.day else file.split
