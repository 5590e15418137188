"""How the files of a version are watched while it is loaded, and how requests get on meanwhile."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sangam.components.server.model import NotServable

WITHDRAWN, CHANGED = "withdrawn", "changed"
"""Reasons for a refusal that are no fault."""
_SWITCH_INTERVAL_S = 5e-5
Fingerprint = tuple[tuple[str, int, int], ...]


def fingerprint_of(folder: Path) -> Fingerprint:
    """Returns a value that changes with any file, and not with the folder's own name."""
    # lstat: a link may be the reason for a refusal.
    entries = []
    for path in sorted(folder.rglob("*")):
        try:
            entries.append((path, path.lstat()))
        except FileNotFoundError:  # Removed since it was listed.
            continue
    return tuple((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in entries)


def check_unchanged(folder: Path, before: Fingerprint) -> None:
    """Refuses a version whose files have changed since they were verified and loaded.

    Raises:
        NotServable: they have.
    """
    if not folder.is_dir():
        raise NotServable(WITHDRAWN, f"{folder}: withdrawn or removed while it was loaded")
    if fingerprint_of(folder) != before:
        raise NotServable(CHANGED, f"{folder}: its files changed while it was loaded; the next check tries it again")


class _Yielding:
    """The interpreter's switch interval, which is short while at least one version loads."""

    def __init__(self) -> None:
        self._lock, self._num_loading, self._before_s = threading.Lock(), 0, 0.0

    def change(self, number: int) -> None:
        with self._lock:
            if not self._num_loading:
                self._before_s = sys.getswitchinterval()
            self._num_loading += number
            sys.setswitchinterval(_SWITCH_INTERVAL_S if self._num_loading else self._before_s)


_YIELDING = _Yielding()


@contextmanager
def yielding() -> Iterator[None]:
    """Shortens the interpreter's switch interval while a version loads: by default requests would wait 5 ms for it.

    Only while loading, since each short wait wakes another core.
    """
    _YIELDING.change(+1)
    try:
        yield
    finally:
        _YIELDING.change(-1)
