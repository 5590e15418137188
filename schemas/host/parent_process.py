"""Signals of the kernel to a process when its parent, or its child, is killed (prctl(2))."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(parent_pid: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
    """Asks the kernel to signal this process when its parent dies, however it dies.

    Args:
        parent_pid: who started this process; if it is gone already, this process ends at once.
        signal_number: SIGTERM where there is something to clean up.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """Asks the kernel to make this process the parent of descendants whose parent has died, so that it finds them."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
