"""Lists the files of a folder that are complete and unread."""

import datetime
import glob
import posixpath
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from components.logs.files.day_files import visible
from components.logs.files.listing import FileFacts
from components.logs.files.local_files import LocalStorage
from components.stream.state import ReadFile
from schemas.contracts.joining_job import JoiningJob
from schemas.derived.days import Day, any_day, day_expression, day_in

MAIN = ""
"""Name of the main log among the sources."""
_OLD_DAYS = 7
"""Days before the newest day; files of earlier days are no longer listed."""


@dataclass(frozen=True)
class Arrival:
    """A complete file.

    Attributes:
        source: name; empty for the main log.
        path: full path.
        name: path below the data folder.
        day: day in its path.
    """

    source: str
    path: str
    name: str
    day: Day


class Folder:
    """A folder in which log files appear.

    A file is complete when its size and time have stayed the same for `settle_s`: writers that take longer between two
    writes write under a name that begins with `_` or a dot, and rename the file.

    Attributes:
        is_behind: whether known files are unread; always False for a folder.
        horizon: latest time up to which all was read; None: the time of the newest row or action.
    """

    is_behind = False
    horizon: int | None = None

    def __init__(self, job: JoiningJob, clock: Callable[[], float] = time.monotonic):
        """Takes the joiner's job."""
        self._root, self._clock = job.data_root, clock
        self._settle_s = job.settings.settle_s
        self._patterns = {MAIN: job.logs.pattern} | {name: each.pattern for name, each in job.logs.sources.items()}
        self._oldest = oldest_days(job)
        self._seen: dict[str, tuple[FileFacts, float]] = {}

    def complete(self, done: Callable[[Arrival], bool]) -> list[Arrival]:
        """Returns the files that are complete and not done, oldest day first, then by source and name."""
        now, found, seen = self._clock(), [], {}
        for source, pattern in self._patterns.items():
            [matches] = LocalStorage().match([posixpath.join(glob.escape(self._root), any_day(pattern))])
            expression = day_expression(pattern)
            for listed in visible(matches, pattern):
                name = posixpath.relpath(listed.path, self._root)
                day = day_in(expression, name)
                if listed.facts is None or day is None or day < self._oldest[source]:
                    continue
                arrival = Arrival(source, listed.path, name, day)
                if done(arrival):
                    continue
                facts, since = self._seen.get(listed.path, (listed.facts, now))
                seen[listed.path] = (listed.facts, since if facts == listed.facts else now)
                if now - seen[listed.path][1] >= self._settle_s:
                    found.append(arrival)
        self._seen = seen
        return sorted(found, key=lambda arrival: (arrival.day, arrival.source, arrival.name))

    def oldest(self, days: Iterable[str]) -> Day | None:
        """Returns the oldest day of the main log that is still read, by the days so far; None: any."""
        newest = max(days, default="")
        return datetime.date.fromisoformat(newest) - datetime.timedelta(days=_OLD_DAYS) if newest else None

    def positions(self, _: Iterable[ReadFile]) -> dict[str, dict[str, int]]:
        """Returns nothing: the joiner's state has the files that were read."""
        return {}

    def sealed(self, files: Iterable[ReadFile]) -> list[tuple[str, str]]:
        """Returns source and name of the files that can be forgotten: their days are no longer read."""
        kept = list(files)
        oldest = self.oldest(file.day for file in kept)
        return [
            (file.source, file.name)
            for file in kept
            if file.is_over and file.source == MAIN and oldest and datetime.date.fromisoformat(file.day) < oldest
        ]

    def status(self) -> Mapping[str, object]:
        """Returns nothing: a folder has no connection."""
        return {}

    def close(self) -> None:
        """Does nothing: a folder has no connection."""


def oldest_days(job: JoiningJob) -> dict[str, Day]:
    """Returns the first day that is read of each log; of a table, days before a row's own are joined to it."""
    first = datetime.date.fromisoformat(job.first_day)
    before = {name: source.max_age_days if source.kind == "table" else 0 for name, source in job.logs.sources.items()}
    return {MAIN: first} | {name: first - datetime.timedelta(days=days) for name, days in before.items()}
