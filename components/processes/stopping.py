"""SIGTERM and Ctrl-C become an exception in the main thread, so that every `finally` on the way out runs."""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

import psutil

from sangam.schemas.contracts.exit_codes import of_signal

_LOG = logging.getLogger(__name__)

GRACE_S = 30.0
"""Seconds from the first signal until all remaining processes are killed."""
REPEAT_S = 5.0
"""Seconds between two exceptions: longer than the cleanup of a step."""


class Stopped(KeyboardInterrupt):
    """A request to stop.

    Derived from KeyboardInterrupt, not Exception: libraries catch an Exception and continue.
    """

    def __init__(self, signum: int):
        self.signum = signum
        super().__init__(f"stopped by {signal.Signals(signum).name}")

    @property
    def exit_code(self) -> int:
        """The exit code that shells expect of a program that this signal has ended."""
        return of_signal(self.signum)


class StopSignals:
    """Takes SIGTERM, SIGINT and SIGHUP while it is entered, and turns them into Stopped inside `raised()`.

    After the grace period all remaining processes are killed, this one last; the next run recovers as from any kill.
    """

    def __init__(self, grace_s: float = GRACE_S, repeat_s: float = REPEAT_S):
        """Takes the time from the first signal to the kill, and from one exception to the next."""
        self._grace_s = grace_s
        self._repeat_s = repeat_s
        self._signum: int | None = None
        self._is_raising = False
        self._is_due = False
        self._ended = threading.Event()
        self._insisting: threading.Thread | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._previous = {signum: signal.signal(signum, self._handle) for signum in signals}
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        # The thread may be about to repeat the signal, which would kill this process under the old handlers.
        if self._insisting:
            self._insisting.join()
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    @property
    def request(self) -> Stopped | None:
        """The requested stop, if any."""
        return None if self._signum is None else Stopped(self._signum)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Raises Stopped inside the block, or on entering it, once a signal has arrived.

        The user's further signals are ignored, so that they do not interrupt the cleanup. But code that calls back into
        Python may swallow the exception: it is raised again every `repeat_s` until the block ends.
        """
        self._is_raising = True
        try:
            if self.request:
                raise self.request
            yield
        finally:
            self._is_raising = False

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        if self._signum is None:
            self._signum = signum
            self._insisting = threading.Thread(target=self._insist, args=(signum,), name="stop-grace", daemon=True)
            self._insisting.start()
        elif not self._is_due:
            return
        self._is_due = False
        if self._is_raising:
            raise Stopped(signum)

    def _insist(self, signum: int) -> None:
        deadline = time.monotonic() + self._grace_s
        while (left_s := deadline - time.monotonic()) > 0:
            if self._ended.wait(min(left_s, self._repeat_s)):
                return
            self._is_due = True
            os.kill(os.getpid(), signum)
        _LOG.error("event=grace_over grace_s=%g action=kill", self._grace_s)
        kill_descendants()
        os._exit(of_signal(signum))


def kill_descendants(wait_s: float = 5.0) -> int:
    """Kills every process that descends from this one and returns how many there were.

    Raises nothing: it runs during cleanup.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        alive = [child for child in psutil.Process().children(recursive=True) if _is_alive(child)]
        if not alive:
            break
        for child in alive:
            with contextlib.suppress(psutil.Error):
                child.kill()
                killed.add(child.pid)
        # Polls without waitpid, which would take the exit codes from the processes' owners.
        time.sleep(0.02)
    return len(killed)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
