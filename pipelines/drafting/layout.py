"""The layout of logs: files by day, with the date in their paths, in named splits, or as one table."""

import datetime
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sangam.components import object_stores
from sangam.components.logs.files.day_files import require_regular
from sangam.components.logs.files.light_storage import LightStorage
from sangam.components.logs.files.table_formats import refuse_tables
from sangam.components.logs.tables.delta import delta_version
from sangam.components.object_stores import is_stored
from sangam.pipelines.drafting.patterns import common_pattern, matches
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import EVAL, TRAIN, VALIDATION
from sangam.schemas.spec.patterns import DAY_FIELDS, FileFormat, TableFormat

_FORMATS: dict[FileFormat, re.Pattern[str]] = {
    "parquet": re.compile(r"\.(parquet|pq)$", re.IGNORECASE),
    "csv": re.compile(r"\.(csv|tsv|dat)(\.gz)?$", re.IGNORECASE),
    "jsonl": re.compile(r"\.(jsonl|ndjson|json)(\.gz)?$", re.IGNORECASE),
    "tfrecord": re.compile(r"[._]tfrecords?(-\d+-of-\d+)?(\.gz)?$", re.IGNORECASE),
}
_ENDINGS = "files end with .parquet, .csv, .tsv, .dat, .jsonl, .json or .tfrecord, the latter with or without .gz"
_OTHERS = re.compile(r"\.(avro|orc|feather|arrow|xlsx|pkl|zip)$", re.IGNORECASE)
_BETWEEN = r"([-_.]|/(?:[A-Za-z_]+=)?)"
_YEAR, _MONTH, _DAY = r"(?P<year>(?:19|20)\d\d)", r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>0[1-9]|[12]\d|3[01])"
_UNPADDED = re.compile(rf"(?<!\d){_YEAR}{_BETWEEN}(?P<month>[1-9]|1[0-2]){_BETWEEN}(?P<day>[1-9]|[12]\d|3[01])(?!\d)")
# A time of day may follow a date without separators.
_DATES = [
    re.compile(rf"(?<!\d){_YEAR}{_MONTH}{_DAY}(?=(?:\d\d){{0,3}}(?!\d))"),
    *(
        re.compile(rf"(?<!\d){first}{_BETWEEN}{second}{_BETWEEN}{third}(?!\d)")
        for first, second, third in ((_YEAR, _MONTH, _DAY), (_DAY, _MONTH, _YEAR), (_MONTH, _DAY, _YEAR))
    ),
    _UNPADDED,
]
_SPLIT = re.compile(r"(?<![a-z])(train(?:ing)?|test(?:ing)?|eval(?:uation)?|val(?:id(?:ation)?)?|dev)(?![a-z])")
_SHOWN = 3


class LogFile(NamedTuple):
    """A file by its path below the data folder, with slashes."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Layout:
    """The files of a data folder.

    Attributes:
        format: format of all files.
        patterns: the spec's patterns by split; by day one pattern with the key `days`, of a table with the key `table`.
        groups: files by day (YYYY-MM-DD, oldest first) or by split, in the order of their paths; of a table one group.
        note: advice on checking the patterns; may be empty.
        root: folder that the patterns are relative to, or its address.
        ignored: files of neither split, such as a sample of a competition's answer.
        days_of_rows: days of a table's rows, oldest first; empty without times, or for few days.
    """

    format: TableFormat
    patterns: Mapping[str, str]
    groups: Mapping[str, tuple[LogFile, ...]]
    note: str = ""
    root: str = ""
    ignored: tuple[LogFile, ...] = ()
    days_of_rows: tuple[datetime.date, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether the files are one table."""
        return "table" in self.patterns

    @property
    def is_by_day(self) -> bool:
        """Whether runs have dates."""
        return "days" in self.patterns or bool(self.days_of_rows)

    @property
    def files(self) -> tuple[LogFile, ...]:
        """All files."""
        return tuple(file for group in self.groups.values() for file in group)

    @property
    def days(self) -> tuple[datetime.date, ...]:
        """The days that have rows, oldest first."""
        return self.days_of_rows or tuple(map(datetime.date.fromisoformat, self.groups if self.is_by_day else ()))


def layout_of(data: str | Path) -> Layout:
    """Returns the files of a data folder and their layout; of a single file the folder around it.

    Raises:
        UserError: the folder cannot be read, has no logs, files of several formats, a table format's log, or paths that
            no spec describes.
    """
    data = str(data).rstrip("/") if is_stored(str(data)) else str(Path(data))
    if "_delta_log" in object_stores.names(data) if is_stored(data) else Path(data, "_delta_log").is_dir():
        return _of_delta(data)
    data, paths = _files_at(data)
    formats = {name: [file for file in paths if ending.search(file.path)] for name, ending in _FORMATS.items()}
    present = {name: files for name, files in formats.items() if files}
    if not present:
        got = _some(file.path for file in paths) or "no files"
        if other := next((match[1] for file in paths if (match := _OTHERS.search(file.path))), ""):
            raise UserError(f"{data}: .{other} is not read (got {got}); write Parquet, as pandas' to_parquet does")
        raise UserError(f"{data}: no logs (got {got}); {_ENDINGS}")
    if parquet := present.get("parquet"):
        # Before their logs count as files of another format.
        refuse_tables((f"{data}/{file.path}" for file in parquet), LightStorage())
    if len(present) > 1:
        counts = ", ".join(f"{len(files)} {name}" for name, files in present.items())
        raise UserError(f"{data}: files of several formats (got {counts}); give a folder with those of one")
    [(file_format, files)] = present.items()
    layout = _by_split(data, file_format, files) or _by_day(data, file_format, files)
    return replace(layout or table_of(data, file_format, files), root=data)


def _of_delta(data: str) -> Layout:
    """Returns the layout of a Delta Lake table."""
    # The log's paths are absolute.
    root, name = posixpath.split(data if is_stored(data) else os.path.abspath(data))
    version = delta_version(data, None)
    require_regular(version.files)
    facts = ((each.path.removeprefix(f"{root}/"), each.facts) for each in version.files)
    files = [LogFile(path, each.size_bytes) for path, each in facts if each]
    note = f"version {version.number} now; a run reads the newest"
    return Layout("delta", {"table": name}, {"": tuple(files)}, note, root)


def table_of(data: str, file_format: TableFormat, files: Sequence[LogFile], note: str = "") -> Layout:
    """Returns the layout of files as one table."""
    return Layout(
        file_format,
        {"table": _pattern(data, [file.path for file in files], lambda _: None)},
        {"": tuple(files)},
        note,
        data,
    )


def _files_at(data: str) -> tuple[str, list[LogFile]]:
    """Returns a folder and its files; of a single file the folder around it."""
    if is_stored(data):
        one = object_stores.found(data)
        folder = posixpath.dirname(data) if one else data
        found = [one] if one else object_stores.listed(data, recursive=True)
        files = [LogFile(each.uri.removeprefix(f"{folder}/"), each.size_bytes) for each in found]
        return folder, [file for file in files if all(map(_is_visible, file.path.split("/")))]
    path = Path(data)
    if path.is_file():
        return str(path.parent), [LogFile(path.name, path.stat().st_size)]
    return data, _logs_in(path)


def _logs_in(data: Path) -> list[LogFile]:
    """Returns the files below a folder, without those that ingestion skips."""
    if not data.is_dir():
        what = "is not a folder" if data.exists() else "no such folder"
        raise UserError(f"{data}: {what}; give the folder of the logs")

    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename}: cannot be listed (got: {error.strerror}); check its permissions")

    found, entered = [], set()
    for folder, folders, names in os.walk(data, followlinks=True, onerror=refuse):
        entered.add(os.path.realpath(folder))
        folders[:] = [
            name for name in folders if _is_visible(name) and os.path.realpath(f"{folder}/{name}") not in entered
        ]
        for name in filter(_is_visible, names):
            path = Path(folder, name)
            if path.is_file():
                found.append(LogFile(path.relative_to(data).as_posix(), path.stat().st_size))
    return sorted(found)


def _is_visible(name: str) -> bool:
    return not name.startswith(("_", "."))


def _by_split(data: str, file_format: FileFormat, files: Sequence[LogFile]) -> Layout | None:
    """Returns the layout if paths name splits: all of them, or some train and some eval; None if not."""
    words = {file: found for file in files if (found := _SPLIT.findall(file.path.lower()))}
    others = tuple(file for file in files if file not in words)
    files = list(words)
    if not files or (others and not {_split_of(found[0]) for found in words.values()} >= {TRAIN, EVAL}):
        return None
    by_word: dict[str, list[LogFile]] = {}
    for file in files:
        by_word.setdefault(_split_of(words[file][0]), []).append(file)
    # Without an evaluation split, the validation split takes its place.
    if EVAL not in by_word and VALIDATION in by_word:
        by_word[EVAL] = by_word.pop(VALIDATION)
    if list(by_word) == [TRAIN]:
        return table_of(data, file_format, files)
    for split, names in ((TRAIN, "train"), (EVAL, "test, eval or validation")):
        if split not in by_word:
            raise UserError(
                f"{data}: no files to {'train' if split == TRAIN else 'evaluate'} on "
                f"(got {_some(file.path for file in files)}); name a folder or file {names}"
            )
    patterns, groups = {}, {}
    for split in sorted(by_word, key=(TRAIN, VALIDATION, EVAL).index):
        patterns[split] = _pattern(data, [file.path for file in by_word[split]], _SPLIT.search)
        groups[split] = tuple(by_word[split])
        rest = [file.path for file in (*files, *others) if file not in groups[split]]
        strange = [path for path in rest if matches(patterns[split], path)]
        if strange:
            raise UserError(
                f"{data}: the files of split {split} match {patterns[split]}, and so do others (got {_some(strange)}); "
                "put each split into a folder of its own"
            )
    return Layout(file_format, patterns, groups, ignored=others)


def _split_of(word: str) -> str:
    return TRAIN if word.startswith("train") else EVAL if word.startswith(("test", "eval")) else VALIDATION


def _by_day(data: str, file_format: FileFormat, files: Sequence[LogFile]) -> Layout | None:
    """Returns the layout if every path has a date in one notation; None if no path has one."""
    read = [(date, days) for date in _DATES if any(days := [_day_of(date, file.path) for file in files])]
    if not read:
        return None
    # The notation that parses most paths; if day and month are ambiguous, the first of the list.
    date, days = max(read, key=lambda each: sum(day is not None for day in each[1]))
    undated = [file.path for file, day in zip(files, days, strict=True) if day is None]
    if undated:
        raise UserError(
            f"{data}: files without a day among others (got {_some(undated)}); remove them, or give a folder"
        )
    template = _template(date, files[0].path)
    groups: dict[str, list[LogFile]] = {}
    for file, day in sorted(zip(files, days, strict=True), key=lambda each: (str(each[1]), each[0])):
        if _template(date, file.path) != template:
            raise UserError(
                f"{data}: dates are written in several ways (got {_some([files[0].path, file.path])}); write all in one"
            )
        groups.setdefault(str(day), []).append(file)
    marked = [date.sub("\0", file.path, count=1) for file in files]
    pattern = _pattern(data, marked, lambda text: "\0" in text).replace("\0", template)
    if len(groups) < 2:
        return None
    is_doubtful = any(other != days and None not in other for _, other in read)
    note = "check: day and month can be exchanged in these paths" if is_doubtful else ""
    return Layout(file_format, {"days": pattern}, {day: tuple(group) for day, group in groups.items()}, note)


def _day_of(date: re.Pattern[str], path: str) -> datetime.date | None:
    match = date.search(path)
    try:
        return datetime.date(*(int(match[field]) for field in DAY_FIELDS)) if match else None
    except ValueError:
        return None


def _template(date: re.Pattern[str], path: str) -> str:
    """Returns a path's date with pattern fields instead of its numbers."""
    match = date.search(path)
    assert match
    text, start = match[0], match.start()
    for field in sorted(DAY_FIELDS, key=match.start, reverse=True):
        text = (
            text[: match.start(field) - start]
            + DAY_FIELDS[field][-1 if date is _UNPADDED else 0]
            + text[match.end(field) - start :]
        )
    return text


def _pattern(data: str, paths: Sequence[str], is_mark: Callable[[str], object]) -> str:
    depths = Counter(path.count("/") for path in paths)
    if len(depths) > 1:
        examples = [next(path for path in paths if path.count("/") == depth) for depth in depths]
        shown = ", ".join(path.replace("\0", "DATE") for path in examples[:_SHOWN])
        raise UserError(f"{data}: files lie at several depths (got {shown}); one pattern must match all: move some")
    return common_pattern(paths, is_mark)


def _some(paths: Iterable[str]) -> str:
    shown = list(paths)
    return listed(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "") if shown else ""
