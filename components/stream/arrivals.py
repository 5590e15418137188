"""Lists the files of a folder that are complete and unread, and those that have changed since they were read."""

import datetime
import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sangam.components.logs.files.day_files import visible
from sangam.components.logs.files.listing import Listed
from sangam.components.stream.dead_letters import DeadLetters
from sangam.components.stream.state import Facts, ReadFile
from sangam.components.stream.watching import Watched
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.derived.days import Day, any_day, day_expression, day_in

MAIN = ""
"""Name of the main log among the sources."""
_LOOKED_AT = 200
"""Known files whose size and time are compared in one listing."""


@dataclass(frozen=True)
class Arrival:
    """A complete file.

    Attributes:
        source: name; empty for the main log.
        path: full path.
        name: path below the data folder.
        day: day in its path.
        facts: size, time and inode; None for landed files, which never change.
        seen: time when these facts were first seen, seconds since 1970; None for landed files.
        newest: latest time that its rows are evidence of; None: that of its rows.
    """

    source: str
    path: str
    name: str
    day: Day
    facts: Facts | None = None
    seen: int | None = None
    newest: int | None = None


class _Changing(NamedTuple):
    facts: Facts
    since: float
    """When these facts were seen first."""
    begun: float
    """When the file was seen first, or was read."""
    seen: int
    """`since` in seconds since 1970."""


class Folder:
    """A folder in which log files appear.

    A file is complete when its size and time have stayed the same for `settle_s`, for CSV whose last line has no end
    `idle_s`. CSV that is written to all the time is read every `idle_s`. Files that change after they were read arrive
    again.

    Attributes:
        is_behind: whether files have been seen that were not complete at the last look.
        horizon: latest time up to which all was read; None: the time of the newest row or action.
    """

    horizon: int | None = None

    def __init__(
        self, job: JoiningJob, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ):
        """Takes the joiner's job, and what returns seconds for pauses, and seconds since 1970."""
        self._root, self._clock, self._wall, self._settings = job.data_root, clock, wall, job.settings
        sources = job.logs.sources
        formats = {MAIN: job.logs.format} | {name: each.format for name, each in sources.items()}
        self._csv = {name for name, each in formats.items() if each == "csv"}
        self._patterns = {MAIN: job.logs.pattern} | {name: each.pattern for name, each in sources.items()}
        self._expressions = {name: day_expression(pattern) for name, pattern in self._patterns.items()}
        self._watched = {name: Watched(job.data_root, any_day(pattern)) for name, pattern in self._patterns.items()}
        self._oldest, self._tolerance = oldest_days(job), datetime.timedelta(days=job.logs.times.tolerance_days)
        self._dead = DeadLetters(Path(job.dead_letters))
        self._files: dict[tuple[str, str], Arrival] = {}
        self._changing: dict[tuple[str, str], _Changing] = {}
        self._turn: list[tuple[str, str]] = []
        self._has_listed = self.is_behind = False

    def complete(self, known: Callable[[Arrival], tuple[bool, Facts | None]]) -> list[Arrival]:
        """Returns the files that are complete and new or changed, oldest day first, then by source and name.

        Args:
            known: returns whether a file was read, and its facts then.
        """
        self._note_changes()
        if not self._turn:
            self._turn = list(self._files)
        looked = dict.fromkeys([*self._changing, *(self._turn.pop() for _ in range(min(_LOOKED_AT, len(self._turn))))])
        now, wall, today, found = self._clock(), int(self._wall()), self._today(), []
        self.is_behind = False
        for key in looked:
            listed = self._files.get(key)
            if listed is None or listed.day > today + self._tolerance:
                self._changing.pop(key, None)  # It arrives on its day.
                continue
            facts = _facts(listed.path)
            if facts is None or facts == known(listed)[1]:
                self._changing.pop(key, None)
                continue
            changing = self._changing.get(key, _Changing(facts, now, now, wall))
            if changing.facts != facts:
                changing = _Changing(facts, now, changing.begun, wall)
            if self._is_complete(listed, changing, now):
                self._changing[key] = _Changing(facts, now, now, wall)
                found.append(replace(listed, facts=facts, seen=changing.seen))
            else:
                self._changing[key] = changing
                self.is_behind = True
        return sorted(found, key=lambda arrival: (arrival.day, arrival.source, arrival.name))

    def path_of(self, file: ReadFile) -> str:
        """Returns the path of a file that was read, under its present name."""
        path = posixpath.join(self._root, file.name)
        return path if _facts(path) is not None else self.moved(file) or path

    def moved(self, file: ReadFile) -> str | None:
        """Returns the path of a file that was read and has another name now; None if there is none."""
        self._note_changes()
        for (source, name), listed in self._files.items():
            facts = _facts(listed.path)
            if facts and file.facts and (source, facts[2]) == (file.source, file.facts[2]) and name != file.name:
                return listed.path
        return None

    def remembers(self, file: ReadFile) -> bool:
        """Returns whether the record of a file that was read is needed to read no row of it twice."""
        day, week = datetime.date.fromisoformat(file.day), datetime.timedelta(days=7)
        is_recent = day >= self._today() - week  # It may come back under another name.
        return day >= self._oldest[file.source] and (is_recent or (file.source, file.name) in self._files)

    def positions(self, _: Iterable[ReadFile]) -> dict[str, dict[str, int]]:
        """Returns nothing: the joiner's state has the files that were read."""
        return {}

    def sealed(self, _: Iterable[ReadFile]) -> list[tuple[str, str]]:
        """Returns nothing: the joiner remembers every file of the folder."""
        return []

    def status(self) -> Mapping[str, object]:
        """Returns nothing: a folder has no connection."""
        return {}

    def close(self) -> None:
        """Does nothing: a folder has no connection."""

    def _note_changes(self) -> None:
        now, wall = self._clock(), int(self._wall())
        for source, watched in self._watched.items():
            for folder, new, gone in watched.changes():
                for name in gone:
                    key = source, posixpath.relpath(posixpath.join(folder, name), self._root)
                    self._files.pop(key, None)
                    self._changing.pop(key, None)
                for name in new:
                    if listed := self._listed(source, posixpath.join(folder, name)):
                        self._files[source, listed.name] = listed
                        if (facts := _facts(listed.path)) is not None:
                            self._changing[source, listed.name] = _Changing(facts, now, now, wall)

        self._has_listed = True

    def _listed(self, source: str, path: str) -> Arrival | None:
        """Returns a file of a day that is read; None for another one."""
        if not visible([Listed(path, None)], self._patterns[source]):
            return None
        name = posixpath.relpath(path, self._root)
        day = day_in(self._expressions[source], name)
        if day is None:
            return None
        if day < self._oldest[source]:
            if self._has_listed:  # What lay there before is the base's.
                reason = (
                    f"{path}: is of a day that the base has learned from (got {day}); correct the clock that wrote it"
                )
                self._dead.add(name, source, f"{reason}, or leave it to the daily run")
            return None
        if day > self._today() + self._tolerance:
            self._dead.add(name, source, f"{path}: its day is still to come (got {day}); it is read on that day")
        elif not name.isprintable():
            shown = name.encode("utf-8", "backslashreplace").decode()
            self._dead.add(shown, source, f"{shown}: has a name that is not printable UTF-8; rename it")
            return None
        return Arrival(source, path, name, day)

    def _is_complete(self, listed: Arrival, changing: _Changing, now: float) -> bool:
        settle_s, idle_s = self._settings.settle_s, self._settings.idle_s
        is_settled = now - changing.since >= settle_s
        if listed.source not in self._csv or listed.name.endswith(".gz") or not changing.facts[0]:
            return is_settled
        if now - changing.since >= max(settle_s, idle_s):
            return True
        return (is_settled or now - changing.begun >= idle_s) and _ends_in_line_end(listed.path)

    def _today(self) -> Day:
        return datetime.datetime.fromtimestamp(self._wall(), datetime.UTC).date()


def _ends_in_line_end(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) in b"\r\n"
    except OSError:
        return False


def _facts(path: str) -> Facts | None:
    """Returns size, time and inode of a regular file; None for everything else."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def oldest_days(job: JoiningJob) -> dict[str, Day]:
    """Returns the first day that is read of each log; of a table, days before a row's own are joined to it."""
    first = datetime.date.fromisoformat(job.first_day)
    before = {name: source.max_age_days if source.kind == "table" else 0 for name, source in job.logs.sources.items()}
    return {MAIN: first} | {name: first - datetime.timedelta(days=days) for name, days in before.items()}
