"""Signals and orphans of a job's processes."""

import os
import signal
from collections.abc import Collection
from types import FrameType


class Stopped(BaseException):
    """SIGTERM was received."""


def stop_on_sigterm() -> None:
    """Makes the first SIGTERM raise `Stopped` in the main thread; later ones are ignored during clean-up.

    Without a handler, the first process of a container ignores SIGTERM.
    """

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stopped

    signal.signal(signal.SIGTERM, stop)


def reap_strangers(own: Collection[int]) -> None:
    """Reaps inherited dead processes, which the first process of a container must do.

    Args:
        own: ids of children that other code waits for.
    """
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid in own:
            return
        os.waitpid(dead.si_pid, os.WNOHANG)
