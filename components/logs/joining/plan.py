"""Plans a join: its files, days and numbers of buckets."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sangam.components.logs.files.resolve import DataFile
from sangam.schemas.derived.sources import days_read
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.sources import Source

_BUCKET_BYTES = 32 * 2**20
"""Approximate size of the file data in one bucket, which is joined in memory."""
_MAX_BUCKETS = 1024


@dataclass(frozen=True)
class JoinFile:
    """A file to split into buckets.

    Attributes:
        source: name; empty for the main log.
        path: full path or URI.
        day: YYYY-MM-DD.
        number: number of the file among those of its side, in the order of the logs.
    """

    source: str
    path: str
    day: str
    number: int


@dataclass(frozen=True)
class JoinPlan:
    """The files, days and buckets of a join.

    Attributes:
        files: files of the main log and of the sources.
        days: days of the main log, as ordinals.
        absent: days without files by source, as ordinals.
        buckets: buckets by source.
    """

    files: tuple[JoinFile, ...]
    days: frozenset[int]
    absent: Mapping[str, frozenset[int]]
    buckets: Mapping[str, int]

    def numbers(self) -> dict[str, int]:
        """Returns the number of each file of the main log, by path."""
        return {file.path: file.number for file in self.files if not file.source}

    def of_source(self, name: str) -> list[JoinFile]:
        """Returns the files of a source."""
        return [file for file in self.files if file.source == name]


def plan_of(logs: DayLogs, files: Sequence[DataFile], others: Sequence[DataFile]) -> JoinPlan:
    """Plans the join of some days.

    Args:
        logs: logs with sources.
        files: files of the main log, of these days alone.
        others: files of all sources, also of other days.
    """
    days = sorted({datetime.date.fromisoformat(str(file.day)) for file in files})
    planned = _numbered("", files)
    absent: dict[str, frozenset[int]] = {}
    buckets: dict[str, int] = {}
    size = sum(file.facts.size_bytes for file in files)
    for name, source in sorted(logs.sources.items()):
        read = {each for day in days for each in days_read(source, day)}
        of_source = files_read(others, name, source, days)
        planned += _numbered(name, of_source)
        present = {file.day for file in of_source}
        absent[name] = frozenset(day.toordinal() for day in read if day.isoformat() not in present)
        total = size + sum(file.facts.size_bytes for file in of_source)
        buckets[name] = min(-(-total // _BUCKET_BYTES), _MAX_BUCKETS)
    return JoinPlan(tuple(planned), frozenset(day.toordinal() for day in days), absent, buckets)


def files_read(others: Sequence[DataFile], name: str, source: Source, days: Iterable[datetime.date]) -> list[DataFile]:
    """Returns the files of a source that are joined to days of the main log."""
    read = {each.isoformat() for day in days for each in days_read(source, day)}
    return [file for file in others if file.split == name and file.day in read]


def _numbered(source: str, files: Sequence[DataFile]) -> list[JoinFile]:
    return [JoinFile(source, file.path, str(file.day), number) for number, file in enumerate(files)]
