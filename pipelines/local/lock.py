"""One run at a time on a root."""

import contextlib
import fcntl
import functools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from schemas.contracts.root import LOCK_FILE
from schemas.errors import UserError


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
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 320, 0).decode(errors="replace").strip() or "unknown"
            raise RootInUse(
                f"--root: another run is using it (got {root}, held by process {holder}); "
                "wait until it has ended, or choose another root"
            ) from None
        os.ftruncate(fd, 0)
        renew = functools.partial(_renew, root, fd)
        renew()
        yield renew
    finally:
        _close(held)


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
