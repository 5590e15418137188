"""Locks a root, so that only one run at a time uses it."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sangam.schemas.host import lock
from sangam.schemas.host.lock import LOCK_FILE
from sangam.schemas.host.lock import LockHeld as RootInUse

__all__ = ["RootInUse", "holder_here", "is_locked", "locked"]


@contextlib.contextmanager
def locked(root: Path) -> Iterator[Callable[[], None]]:
    """Holds the root's lock; yields a function that renews it.

    Renewing gives the lock's file a new time, and raises RootInUse once the lock is lost.

    Raises:
        RootInUse: another process holds it.
    """
    with lock.locked(root / LOCK_FILE, "--root", "another run is using it") as held:
        yield held.renew


def is_locked(folder: Path) -> bool:
    """Returns whether a process holds the lock of a root, or of a search."""
    return lock.is_locked(folder / LOCK_FILE)


def holder_here(folder: Path) -> int | None:
    """Returns the id of the process that holds a root's lock, if it runs on this machine; None otherwise."""
    return lock.holder_here(folder / LOCK_FILE)
