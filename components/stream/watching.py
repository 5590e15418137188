"""Lists the files of a pattern at the cost of what has changed: a folder is listed again only after a change."""

import fnmatch
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LOG = logging.getLogger("sangam.components.stream")
_RACE_NS = 2 * 10**9
"""A folder's time may stay the same over several changes in one tick of its file system's clock."""


@dataclass(frozen=True)
class _Known:
    mtime_ns: int
    listed_ns: int
    names: frozenset[str]


class Watched:
    """The paths below a folder that match a pattern of paths, in which a wildcard matches no slash."""

    def __init__(self, root: str, pattern: str, clock_ns: Callable[[], int] = time.time_ns):
        """Takes the folder and the pattern below it; lists nothing yet."""
        self._root, self._clock_ns = root, clock_ns
        self._parts = [re.compile(fnmatch.translate(part)).match for part in pattern.split("/")]
        self._known: dict[str, _Known] = {}
        self._unreadable: set[str] = set()

    def changes(self) -> Iterator[tuple[str, frozenset[str], frozenset[str]]]:
        """Yields each folder that has changed, with the names that are new in it and those that are gone."""
        seen: set[str] = set()
        yield from self._below(self._root, 0, seen)
        for folder in self._known.keys() - seen:
            gone = self._known.pop(folder).names
            yield folder, frozenset(), gone

    def _below(self, folder: str, depth: int, seen: set[str]) -> Iterator[tuple[str, frozenset[str], frozenset[str]]]:
        seen.add(folder)
        before = self._known.get(folder)
        names = self._listed(folder, depth)
        if depth + 1 < len(self._parts):
            for name in names:
                yield from self._below(os.path.join(folder, name), depth + 1, seen)
            return
        former = before.names if before else frozenset[str]()
        if names is not former:
            yield folder, names - former, former - names

    def _listed(self, folder: str, depth: int) -> frozenset[str]:
        known, now = self._known.get(folder), self._clock_ns()
        try:
            mtime_ns = os.stat(folder).st_mtime_ns
            if known and known.mtime_ns == mtime_ns and known.listed_ns - mtime_ns > _RACE_NS:
                return known.names
            names = frozenset(name for name in os.listdir(folder) if self._parts[depth](name))
        except (FileNotFoundError, NotADirectoryError):
            mtime_ns, names = 0, frozenset()
        except OSError as error:
            if folder not in self._unreadable:
                _LOG.error("folder=%s cannot be listed: %s", folder, error.strerror)
            self._unreadable.add(folder)
            return known.names if known else frozenset()
        self._unreadable.discard(folder)
        if known and names == known.names:
            names = known.names  # The same object: nothing has changed.
        self._known[folder] = _Known(mtime_ns, now, names)
        return names
