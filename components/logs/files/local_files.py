"""The local file system, without the import of TensorFlow."""

import fnmatch
import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from sangam.components.logs.files.listing import THREADS, FileFacts, Listed

_ESCAPED = re.compile(r"\[([*?[])\]")
_WILDCARD = re.compile(r"[*?[]")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_local(path: str) -> BinaryIO:
    """Opens a file of the local file system for reading bytes."""
    return open(path, "rb")


def literal(part: str) -> str | None:
    """Returns the name that a part of a pattern without wildcards stands for; None for one with wildcards."""
    return None if _WILDCARD.search(_ESCAPED.sub("", part)) else _ESCAPED.sub(r"\1", part)


class LocalStorage:
    """See `listing.Storage`. Slow calls run in many threads, as the folder may be a mounted network store."""

    def __init__(self, scan: Callable[[str], Any] = os.scandir, look: Callable[[str], os.stat_result] = os.stat):
        self._scan = scan
        self._look = look

    def match(self, patterns: Sequence[str]) -> list[list[Listed]]:
        """Returns the matches of each pattern, by path."""
        with ThreadPoolExecutor(THREADS) as threads:
            names = list(threads.map(lambda pattern: list(self._names("", pattern.split("/"))), patterns))
            listed = threads.map(self._listed, [name for of_pattern in names for name in of_pattern])
            by_pattern = [[next(listed) for _ in of_pattern] for of_pattern in names]
        return [sorted(filter(None, of_pattern), key=lambda each: each.path) for of_pattern in by_pattern]

    def _names(self, folder: str, parts: Sequence[str]) -> Iterator[str | Listed]:
        """Yields the paths below a folder that match, and folders that cannot be listed."""
        while parts and (name := literal(parts[0])) is not None:
            folder = posixpath.join(folder, name or "/") if name or not folder else folder
            parts = parts[1:]
        if not parts:
            yield folder
            return
        is_match = re.compile(fnmatch.translate(parts[0])).match
        try:
            with self._scan(folder or ".") as entries:
                matching = [entry for entry in entries if is_match(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            yield Listed(folder, None, f"cannot be listed (got: {error.strerror}); check its permissions")
            return
        for entry in matching:
            path = posixpath.join(folder, entry.name)
            if len(parts) == 1:
                yield path
            elif entry.is_dir():
                yield from self._names(path, parts[1:])

    def _listed(self, path: str | Listed) -> Listed | None:
        if isinstance(path, Listed):
            return path
        try:
            path.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(path).decode(errors="backslashreplace")
            return Listed(shown, None, "its name is not UTF-8; rename it")
        try:
            status = self._look(path)
        except NotADirectoryError:
            return None
        except FileNotFoundError:
            if not os.path.islink(path):
                return None
            return Listed(path, None, f"is a broken link (got {os.readlink(path)}); repair or remove it")
        except OSError as error:
            return Listed(path, None, f"cannot be inspected (got: {error.strerror}); repair or remove it")
        if stat.S_ISREG(status.st_mode):
            return Listed(path, FileFacts(size_bytes=status.st_size, mtime_ns=status.st_mtime_ns))
        kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
        return Listed(path, None, f"is not a regular file (got {kind}); remove it, or narrow the pattern")
