"""Memory of processes over a soak, whichever process of a kind runs just then."""

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import psutil

_SAMPLE_S = 5.0
_GROWN_UP_S = 90.0
"""A process may still be starting before, on a busy machine."""
_WARM_SHARE = 0.25


@dataclass(frozen=True)
class Sample:
    """Resident bytes of one process, `at` seconds after the start of the soak."""

    at: float
    kind: str
    pid: int
    size: int


@dataclass(frozen=True)
class Told:
    """Memory of a kind, after the first quarter of the soak.

    Attributes:
        samples: of processes that were grown up.
        least: MiB.
        most: MiB.
        growth: of the line through each minute's least, over the time that counts, as a share of the least.
    """

    samples: int
    least: float
    most: float
    growth: float


class Memory:
    """Samples in a thread of its own."""

    def __init__(self, processes: Callable[[], list[tuple[str, int]]]):
        """Takes what returns kind and number of every process."""
        self._processes, self._began = processes, time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_SAMPLE_S):
            at = time.monotonic() - self._began
            for kind, pid in self._processes():
                try:
                    process = psutil.Process(pid)
                    size = process.memory_info().rss  # 0: it has just been killed.
                    if size and time.time() - process.create_time() > _GROWN_UP_S:
                        self.samples.append(Sample(at, kind, pid, size))
                except psutil.Error:
                    continue


def told(samples: list[Sample]) -> dict[str, Told]:
    """Returns what to tell of each kind."""
    last = max((sample.at for sample in samples), default=0.0)
    counted = [sample for sample in samples if sample.at >= _WARM_SHARE * last]
    found = {}
    for kind in sorted({sample.kind for sample in counted}):
        own = [sample for sample in counted if sample.kind == kind]
        minutes = [
            (minute * 60.0, min(sample.size for sample in of_minute))
            for minute, of_minute in itertools.groupby(own, lambda sample: sample.at // 60)
        ]
        sizes = [sample.size for sample in own]
        at, least = np.array(minutes, float).T
        slope = float(np.polyfit(at, least, 1)[0]) if len(minutes) > 2 else 0.0
        growth = slope * (minutes[-1][0] - minutes[0][0]) / min(sizes)
        found[kind] = Told(len(own), min(sizes) / 2**20, max(sizes) / 2**20, growth)
    return found
