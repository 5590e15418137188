"""The memory and processor time of a step, over all of its processes."""

import os
import threading
from pathlib import Path
from typing import Self

import psutil

INTERVAL_S = 1.0


def tree_memory_bytes(pid: int) -> int:
    """Returns the memory of a process and all its descendants.

    The proportional set size where the kernel reports it, so that shared pages count once; else the resident set size.
    """
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(_memory_bytes(process) for process in family)


def _memory_bytes(process: psutil.Process) -> int:
    try:
        # psutil's own PSS reads `smaps`, one entry per mapping; the rolled-up file is much faster.
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def cpu_seconds() -> float:
    """Returns the processor time of this process and of its descendants that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class PeakMemory:
    """Samples the memory of this process and its descendants in a thread; a context manager.

    Attributes:
        peak_bytes: the largest sample so far.
    """

    def __init__(self, pid: int, interval_s: float = INTERVAL_S):
        self._pid = pid
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="peak-memory", daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, tree_memory_bytes(self._pid))
            if self._ended.wait(self._interval_s):
                return
