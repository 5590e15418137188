"""Lists files, many patterns at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

THREADS = 128
"""Threads that list files: they wait for responses, without load on the processor."""
_PROBLEMS_SHOWN = 10


@dataclass(frozen=True)
class FileFacts:
    """Facts of a file that show a change."""

    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Listed:
    """A path in a listing.

    Attributes:
        path: whole path or URI.
        facts: facts of a regular file; None for everything else.
        problem: why it cannot be read; empty for a regular file.
    """

    path: str
    facts: FileFacts | None
    problem: str = ""


class Storage(Protocol):
    """The file system interface of `resolve`."""

    def match(self, patterns: Sequence[str]) -> list[list[Listed]]:
        """Returns the matches of each pattern, by path; lists many patterns at a time."""


class OneListing:
    """A snapshot of a storage: no pattern is listed twice."""

    def __init__(self, storage: Storage):
        self._storage = storage
        self._known: dict[str, list[Listed]] = {}

    def match(self, patterns: Sequence[str]) -> list[list[Listed]]:
        """See `Storage`."""
        new = [pattern for pattern in dict.fromkeys(patterns) if pattern not in self._known]
        if new:
            self._known |= zip(new, self._storage.match(new), strict=True)
        return [self._known[pattern] for pattern in patterns]


def first_problems(problems: Sequence[str]) -> list[str]:
    """Returns the first problems, and the number of the others; one that several files have only once."""
    files: dict[str, list[str]] = {}
    for problem in problems:
        place, _, rest = problem.partition(": ")
        files.setdefault(rest if "/" in place else problem, []).append(place)
    told = [_told(rest, places) for rest, places in files.items()]
    more = len(told) - _PROBLEMS_SHOWN
    return [*told[:_PROBLEMS_SHOWN], *([f"... and {more} more problems of this kind"] if more > 0 else [])]


def _told(rest: str, places: Sequence[str]) -> str:
    if "/" not in places[0]:
        return rest
    others = f" and {len(places) - 1} more files to {places[-1]}" if len(places) > 1 else ""
    return f"{places[0]}{others}: {rest}"
