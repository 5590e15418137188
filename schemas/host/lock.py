"""Locks a folder by a file in it, for one process at a time; the kernel releases the lock when its process ends.

Only those who may write into the folder can open the file, so nobody else can hold up its writers. A link in its place
is never followed.
"""

import contextlib
import datetime
import fcntl
import logging
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sangam.schemas.errors import UserError

LOCK_FILE = ".lock"
_LOG = logging.getLogger(__name__)
_TRIES, _BETWEEN_S, _POLL_S = 3, 0.02, 0.2
_HOLDER = re.compile(r"(\d{1,10}) on ([\w.-]{1,255}) since ([\d:TZ-]{20})\n?")
_LOCKS = Path("/proc/locks")


class LockHeld(UserError):
    """Another process holds the lock, or may: NFS releases the lock of a disconnected machine."""

    is_mistake = False


@dataclass
class Lock:
    """A lock of this process.

    Attributes:
        file: the locked file.
        place: place for errors.
        fd: its descriptor.
        since: when it was acquired, UTC.
    """

    file: Path
    place: str
    fd: int
    since: str = field(default_factory=lambda: f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}")

    def renew(self) -> None:
        """Gives the file a new time.

        Raises:
            LockHeld: the lock is lost, for example because the file was removed.
        """
        try:
            if not _is_at(self.fd, self.file):
                raise OSError(0, "it was removed or replaced")
            # With the host name, since process ids repeat in pods: each container's first process has id 1.
            line = f"{os.getpid()} on {socket.gethostname()} since {self.since}\n".encode()
            os.pwrite(self.fd, line, 0)
            os.ftruncate(self.fd, len(line))
            os.fsync(self.fd)
        except OSError as error:
            raise LockHeld(
                f"{self.place}: the lock is lost (got {error.strerror} for {self.file}); this ends, as another process "
                "may use the folder; start it again"
            ) from error

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def acquire(file: Path, place: str, use: str = "another process is using it", *, wait_s: float = 0.0) -> Lock:
    """Acquires a lock.

    Args:
        file: made if missing.
        place: place for errors.
        use: what another holder does.
        wait_s: for how long to wait for another holder; from the second on, a line of the log says so.

    Raises:
        LockHeld: another process holds it.
        UserError: the file is a link, or cannot be opened.
    """
    given_up = time.monotonic() + wait_s
    is_told = False
    while True:
        lock = Lock(file, place, _open(file, place))
        try:
            if _taken(lock.fd, fcntl.LOCK_EX):
                if _is_at(lock.fd, file):
                    # A child that outlives this process must not hold it: O_CLOEXEC closes it on exec, this on a fork.
                    os.register_at_fork(after_in_child=lock.release)
                    lock.renew()
                    return lock
                lock.release()
                continue  # It was removed meanwhile: whoever comes next locks the new one.
            holder = _content(lock.fd)
        except BaseException:
            lock.release()
            raise
        lock.release()
        if time.monotonic() >= given_up:
            waited = f" for {wait_s:g} s" if wait_s else ""
            raise LockHeld(
                f"{place}: {use}{waited} (got {file.parent}, held by process {holder}); wait until it has ended, or "
                "choose another folder"
            )
        if not is_told:
            _LOG.warning("%s: %s (got process %s); waits up to %g s for its lock", place, use, holder, wait_s)
            is_told = True
        time.sleep(_POLL_S)


@contextlib.contextmanager
def locked(file: Path, place: str, use: str = "another process is using it", *, wait_s: float = 0.0) -> Iterator[Lock]:
    """Holds a lock; see `acquire`."""
    lock = acquire(file, place, use, wait_s=wait_s)
    try:
        yield lock
    finally:
        lock.release()


def is_locked(file: Path) -> bool:
    """Returns whether a process holds a lock; acquires it briefly to check, or asks the kernel where it may not."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return _is_listed(file)
    except OSError:
        return False
    try:
        return not _taken(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def holder_here(file: Path) -> int | None:
    """Returns the id of the process that holds a lock, if it runs on this machine; None otherwise."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = _HOLDER.fullmatch(_content(fd))
    finally:
        os.close(fd)
    return int(found[1]) if found and found[2] == socket.gethostname() and is_locked(file) else None


def _open(file: Path, place: str) -> int:
    """Opens the file for those who may write into its folder, and for nobody else."""
    try:
        # O_NONBLOCK: opening a pipe must not wait for a reader.
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        what = f"is a link to {os.readlink(file)}" if file.is_symlink() else error.strerror
        raise UserError(
            f"{place}: the lock cannot be opened (got {file}: {what}); remove it if no process uses the folder"
        ) from error
    try:
        status, folder = os.fstat(fd), os.stat(file.parent)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise UserError(
                f"{place}: the lock is no file of its own (got {file}: {stat.filemode(status.st_mode)}, "
                f"{status.st_nlink} names); remove it if no process uses the folder"
            )
        if status.st_uid == os.geteuid():
            _allow_writers(fd, status, folder)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _allow_writers(fd: int, status: os.stat_result, folder: os.stat_result) -> None:
    group = status.st_gid
    if group != folder.st_gid:
        with contextlib.suppress(OSError):
            os.fchown(fd, -1, folder.st_gid)
            group = folder.st_gid
    writers = stat.S_IMODE(folder.st_mode) & (0o222 if group == folder.st_gid else 0o202)
    mode = 0o600 | writers | writers << 1
    if stat.S_IMODE(status.st_mode) != mode:
        with contextlib.suppress(OSError):  # Some mounted stores have no modes.
            os.fchmod(fd, mode)


def _content(fd: int) -> str:
    """Returns the holder's line; `unknown` for any other."""
    try:
        text = os.pread(fd, 320, 0).decode(errors="replace")
    except OSError:  # Not a regular file.
        return "unknown"
    return text.strip() if _HOLDER.fullmatch(text) else "unknown"


def _is_at(fd: int, file: Path) -> bool:
    """Returns whether a descriptor's file is still the one of this path."""
    try:
        there = os.stat(file, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def _taken(fd: int, kind: int) -> bool:
    """Acquires a lock; returns False if another process holds it for longer than `is_locked` does."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        time.sleep(_BETWEEN_S)
    return False


def _is_listed(file: Path) -> bool:
    """Returns whether the kernel lists a lock of a file that this process may not open."""
    try:
        status, locks = os.stat(file, follow_symlinks=False), _LOCKS.read_text().splitlines()
    except OSError:
        return False
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return any(name in line.split() for line in locks)
