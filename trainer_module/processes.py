"""Manners of a child process: it ends with its parent, and says what ended it."""

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1

MISTAKE = 3
"""Exit code of a process that trying again cannot help: what it was given is wrong, and it has said so."""


def end_with_parent(parent_pid: int, signal_number: signal.Signals = signal.SIGKILL) -> None:
    """Asks the kernel to signal this process when its parent dies, however it dies.

    Args:
        parent_pid: who started this process; if it is gone already, this process ends at once.
        signal_number: SIGTERM where there is something to clean up.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def tail(path: Path, lines: int = 25) -> str:
    """Returns the end of a log, at most 64 KiB of it, or a word where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 65536))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.rstrip().splitlines()[-lines:]) or "(empty log)"
