"""Lists and opens files on this machine and on object stores, without the import of TensorFlow."""

import fnmatch
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from sangam.components import object_stores
from sangam.components.logs.files.listing import THREADS, FileFacts, Listed
from sangam.components.logs.files.local_files import LocalStorage, literal, open_local


class LightStorage:
    """See `listing.Storage`."""

    def match(self, patterns: Sequence[str]) -> list[list[Listed]]:
        """Returns the matches of each pattern, by path.

        Raises:
            UserError: a store cannot be listed.
        """
        local = [pattern for pattern in patterns if not object_stores.is_stored(pattern)]
        found = dict(zip(local, LocalStorage().match(local), strict=True))
        stored = [pattern for pattern in patterns if object_stores.is_stored(pattern)]
        with ThreadPoolExecutor(THREADS) as threads:
            found |= zip(stored, threads.map(_matches, stored), strict=True)
        return [found[pattern] for pattern in patterns]


def _matches(pattern: str) -> list[Listed]:
    scheme, _, path = pattern.partition("://")
    parts = path.split("/")
    fixed = [literal(part) for part in parts]
    depth = next((place for place, part in enumerate(fixed) if part is None), len(parts))
    start = f"{scheme}://{'/'.join(part or '' for part in fixed[:depth])}"
    if depth == len(parts):
        one = object_stores.found(start)
        entries = [one] if one else []
    else:
        entries = object_stores.listed(start, recursive=depth < len(parts) - 1)
    matchers = [re.compile(fnmatch.translate(part)).match for part in parts[depth:]]
    return [
        Listed(entry.uri, FileFacts(entry.size_bytes, entry.mtime_ns))
        for entry in entries
        if _fits(entry.uri.partition("://")[2].split("/")[depth:], matchers)
    ]


def _fits(parts: Sequence[str], matchers: Sequence[object]) -> bool:
    return len(parts) == len(matchers) and all(match(part) for match, part in zip(matchers, parts, strict=True))  # type: ignore[operator]


def open_light(path: str) -> BinaryIO:
    """Opens a file for reading bytes."""
    return object_stores.open_stored(path) if object_stores.is_stored(path) else open_local(path)
