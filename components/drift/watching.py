"""Counts a sample of requests by the hour, in a thread of its own that takes a bounded share of a core."""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sangam.components.drift.comparison import Comparison
from sangam.components.drift.counting import Arrays, Ints
from sangam.schemas.contracts.export import RANK, SERVE
from sangam.schemas.host.limited_log import LimitedLog

_LOG = LimitedLog(logging.getLogger("sangam.components.server"))
SHARE = 0.01
"""Largest share of a core that the thread takes."""
_MOST_WAITING = 4
"""Requests that wait; others are not in the sample. They may be large: their memory is bounded by their number."""
_EVERY_S = 0.1
_HOUR_S = 3600
_STOP_S = 5.0
RUNNING, LAST = "running", "last"
"""The hour of the clock (UTC) that has begun, and the one before."""


@dataclass(frozen=True)
class _Sample:
    comparison: Comparison
    at_s: float
    inputs: Arrays
    num_rows: int
    scores: Arrays


@dataclass(frozen=True)
class Counted:
    """The counts of one version, in one process or in several.

    Attributes:
        version: number of the version.
        hours: vector of counts by hour, since 1970.
    """

    version: int
    hours: Mapping[int, Ints]

    def is_of(self, comparison: Comparison) -> bool:
        """Returns whether these are counts of a version's columns and tasks."""
        return self.version == comparison.version and all(len(each) == comparison.size for each in self.hours.values())

    def of(self, comparison: Comparison, hour: int) -> Ints:
        """Returns the counts of an hour; zeros without any."""
        found = self.hours.get(hour)
        return np.zeros(comparison.size, np.int64) if found is None else found

    def packed(self) -> bytes:
        """Returns it for another process."""
        head = json.dumps({"version": self.version, "hours": list(self.hours)}).encode()
        return b"\n".join([head, b"".join(counts.tobytes() for counts in self.hours.values())])


def unpacked(content: bytes) -> Counted:
    """Returns what another process has packed.

    Raises:
        ValueError: the answer is cut off.
    """
    head, _, rest = content.partition(b"\n")
    told = json.loads(head)
    parts = np.split(np.frombuffer(rest, np.int64), len(told["hours"])) if told["hours"] else []
    return Counted(told["version"], dict(zip(told["hours"], parts, strict=True)))


def added(comparison: Comparison, parts: Iterable[Counted]) -> Counted:
    """Returns the sum of what processes have counted of a version."""
    hours: dict[int, Ints] = {}
    for part in parts:
        for hour, counts in part.hours.items() if part.is_of(comparison) else ():
            hours[hour] = hours[hour] + counts if hour in hours else counts
    return Counted(comparison.version, hours)


class DriftWatch:
    """Takes a sample of the requests from any thread, and counts them in one of its own."""

    def __init__(self, served: Callable[[], Comparison | None], clock: Callable[[], float] = time.time):
        """Starts the thread.

        Args:
            served: returns the comparison of the served version; None: it has none.
            clock: seconds since 1970.
        """
        self._served, self._clock = served, clock
        self._waiting: deque[_Sample] = deque()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._counted: Counted | None = None
        self._thread = threading.Thread(target=self._work, name="drift", daemon=True)
        self._thread.start()

    def offer(self, comparison: Comparison | None, signature: str, inputs: Arrays, num_rows: int, scores: Any) -> None:
        """Puts an answered request into the sample if there is room; never waits, and raises nothing."""
        if comparison is None or len(self._waiting) >= _MOST_WAITING or signature not in (RANK, SERVE) or not num_rows:
            return
        self._waiting.append(_Sample(comparison, self._clock(), inputs, num_rows, scores))

    def counted(self) -> Counted | None:
        """Returns what was counted of the served version; None where nothing is compared."""
        served = self._served()
        with self._lock:
            counted = self._counted
            if served is None:
                return None
            if counted is None or not counted.is_of(served):
                return Counted(served.version, {})
            return Counted(counted.version, {hour: counts.copy() for hour, counts in counted.hours.items()})

    def now(self) -> Mapping[str, int]:
        """Returns the running and the last hour, since 1970."""
        running = int(self._clock() // _HOUR_S)
        return {RUNNING: running, LAST: running - 1}

    def served(self) -> Comparison | None:
        """Returns what the served version is compared with; None where it is not."""
        return self._served()

    def is_waiting(self) -> bool:
        """Returns whether a request of the sample is not counted yet."""
        return bool(self._waiting)

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        self._thread.join(_STOP_S)

    def _work(self) -> None:
        wait_s = _EVERY_S
        while not self._stopped.wait(wait_s):
            began = time.thread_time()
            try:
                self._count_some(began + SHARE * _EVERY_S)
            except Exception as error:  # noqa: BLE001 The comparison fails no request, and goes on.
                _LOG.error("drift=failed", error)
            wait_s = max(_EVERY_S, (time.thread_time() - began) / SHARE)

    def _count_some(self, until: float) -> None:
        while self._waiting and time.thread_time() < until:
            sample = self._waiting[0]
            try:
                if sample.comparison is self._served():
                    self._count(sample)
            finally:
                self._waiting.popleft()

    def _count(self, sample: _Sample) -> None:
        comparison, hour = sample.comparison, int(sample.at_s // _HOUR_S)
        found = comparison.counts(sample.inputs, sample.num_rows, sample.scores)
        with self._lock:
            before = self._counted
            hours = dict(before.hours) if before is not None and before.is_of(comparison) else {}
            hours[hour] = hours[hour] + found if hour in hours else found
            newest = max(hours)
            self._counted = Counted(comparison.version, {each: hours[each] for each in hours if each >= newest - 1})
