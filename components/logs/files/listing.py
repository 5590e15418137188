"""Lists files, many patterns at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

THREADS = 128
"""That look at files at a time: they wait for an answer, they do not work."""
_PROBLEMS_SHOWN = 10


@dataclass(frozen=True)
class FileFacts:
    """What tells that a file changed."""

    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Listed:
    """What a listing says of a path.

    Attributes:
        path: whole path or URI.
        facts: facts of a regular file; None for everything else.
        problem: why it cannot be read; empty for a regular file.
    """

    path: str
    facts: FileFacts | None
    problem: str = ""


class Storage(Protocol):
    """What resolving needs of a file system."""

    def match(self, patterns: Sequence[str]) -> list[list[Listed]]:
        """Returns what matches each pattern, by path: a listing for each, many at a time."""


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
    """Returns the first problems, and the number of the others."""
    more = len(problems) - _PROBLEMS_SHOWN
    return [*problems[:_PROBLEMS_SHOWN], *([f"... and {more} more problems of this kind"] if more > 0 else [])]
