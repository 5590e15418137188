"""SIGTERM and Ctrl-C become an exception in the main thread, so that every `finally` on the way out runs."""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import psutil

_LOG = logging.getLogger(__name__)

GRACE_S = 30.0
"""From the first signal to the moment when whatever is left is killed."""


class Stopped(KeyboardInterrupt):
    """A request to stop.

    Derived from KeyboardInterrupt, not Exception: libraries catch and go on after an Exception.
    """

    def __init__(self, signum: int):
        self.signum = signum
        super().__init__(f"stopped by {signal.Signals(signum).name}")

    @property
    def exit_code(self) -> int:
        """What shells expect of a program ended by this signal."""
        return 128 + self.signum


@contextlib.contextmanager
def stop_on_signals(grace_s: float = GRACE_S) -> Iterator[None]:
    """Raises Stopped in the main thread at the first SIGTERM, SIGINT or SIGHUP; later ones change nothing.

    Native code may keep the main thread from seeing the exception. Whatever is left `grace_s` after the signal is
    therefore killed, this process last; the next run recovers from it as from any kill.
    """
    stopping = threading.Event()
    ended = threading.Event()

    def handle(signum: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            return
        stopping.set()
        threading.Thread(target=_kill_after, args=(grace_s, ended, signum), name="stop-grace", daemon=True).start()
        raise Stopped(signum)

    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    previous = {signum: signal.signal(signum, handle) for signum in signals}
    try:
        yield
    finally:
        ended.set()
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def _kill_after(grace_s: float, ended: threading.Event, signum: int) -> None:
    if ended.wait(grace_s):
        return
    _LOG.error("event=grace_over grace_s=%g action=kill", grace_s)
    kill_descendants()
    os._exit(128 + signum)


def kill_descendants(wait_s: float = 5.0) -> int:
    """Kills every process that descends from this one and returns how many there were.

    Raises nothing: it is for the way out.
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
        # Not waited for: that would take their exit codes from whoever started them.
        time.sleep(0.02)
    return len(killed)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
