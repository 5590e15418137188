"""Signals, parents and orphans of a job's processes."""

import ctypes
import os
import signal
from collections.abc import Collection
from types import FrameType

_PR_SET_PDEATHSIG = 1


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


def end_with_parent(parent_pid: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
    """Asks the kernel to signal this process when its parent dies, however it dies.

    Args:
        parent_pid: who started this process; if it is gone already, this process ends at once.
        signal_number: SIGTERM where there is something to clean up.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def reap_strangers(own: Collection[int]) -> None:
    """Reaps dead processes that this one has inherited, as the first process of a container does.

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
