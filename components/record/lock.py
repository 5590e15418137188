"""One run at a time on a root."""

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
    """Another process holds the lock, or may: NFS takes it from a machine that was cut off for a while."""


@contextlib.contextmanager
def locked(root: Path) -> Iterator[Callable[[], None]]:
    """Holds the root's lock, which the kernel releases however this process ends; yields what renews it.

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
    """Returns whether a process holds the lock of a root, or of a search; takes it for a moment to know."""
    try:
        fd = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _taken(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def holder_here(folder: Path) -> int | None:
    """Returns the process that holds a root's lock, if it is one of this machine; None otherwise."""
    try:
        pid, _, host = (folder / LOCK_FILE).read_text(encoding="utf-8", errors="replace").strip().partition(" on ")
    except OSError:
        return None
    return int(pid) if host == socket.gethostname() and pid.isdigit() and is_locked(folder) else None


def _taken(fd: int, kind: int) -> bool:
    """Takes a lock, unless another process holds it for longer than `is_locked` does."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        time.sleep(_BETWEEN_S)
    return False


def _renew(root: Path, fd: int) -> None:
    try:
        # In a container every first process is number 1: the host tells pods apart.
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
