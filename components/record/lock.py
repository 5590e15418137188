"""Locks a root, so that only one run at a time uses it."""

import contextlib
import fcntl
import functools
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from schemas.contracts.root import LOCK_FILE
from schemas.errors import UserError

_TRIES, _BETWEEN_S = 3, 0.02


class RootInUse(UserError):
    """Another process holds the lock, or may: NFS releases the lock of a disconnected machine."""


@contextlib.contextmanager
def locked(root: Path) -> Iterator[Callable[[], None]]:
    """Holds the root's lock, which the kernel releases when this process ends; yields a function that renews it.

    Renewing gives the lock's file a new time, and raises RootInUse once the lock is lost.

    Raises:
        RootInUse: another process holds it.
    """
    # A child that outlives this process must not hold the lock: O_CLOEXEC closes it on exec, the hook after a fork.
    fd = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    held = [fd]
    os.register_at_fork(after_in_child=lambda: _close(held))
    try:
        if not _taken(fd, fcntl.LOCK_EX):
            holder = os.pread(fd, 320, 0).decode(errors="replace").strip() or "unknown"
            raise RootInUse(
                f"--root: another run is using it (got {root}, held by process {holder}); "
                "wait until it has ended, or choose another root"
            )
        os.ftruncate(fd, 0)
        renew = functools.partial(_renew, root, fd)
        renew()
        yield renew
    finally:
        _close(held)


def is_locked(folder: Path) -> bool:
    """Returns whether a process holds the lock of a root, or of a search; acquires the lock briefly to check."""
    try:
        fd = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _taken(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def holder_here(folder: Path) -> int | None:
    """Returns the id of the process that holds a root's lock, if it runs on this machine; None otherwise."""
    try:
        pid, _, host = (folder / LOCK_FILE).read_text(encoding="utf-8", errors="replace").strip().partition(" on ")
    except OSError:
        return None
    return int(pid) if host == socket.gethostname() and pid.isdigit() and is_locked(folder) else None


def _taken(fd: int, kind: int) -> bool:
    """Acquires a lock; returns False if another process holds it for longer than `is_locked` does."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        time.sleep(_BETWEEN_S)
    return False


def _renew(root: Path, fd: int) -> None:
    try:
        # With the host name, since process ids repeat in pods: each container's first process has id 1.
        os.pwrite(fd, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        os.fsync(fd)
    except OSError as error:
        raise RootInUse(
            f"--root: the lock is lost (got {error.strerror} for {root / LOCK_FILE}); this ends, as another process "
            "may use the root; start it again"
        ) from error


def _close(held: list[int]) -> None:
    while held:
        os.close(held.pop())
