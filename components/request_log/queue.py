"""The queue between the threads of requests and the one that writes them: bounded, and what it drops is counted."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Protocol

from sangam.components.request_log.served import Plan, Served
from sangam.schemas.contracts.request_log import hour_folder
from sangam.schemas.host.limited_log import LimitedLog

_LOG = LimitedLog(logging.getLogger("sangam.components.server"))
_MAX_BYTES = 64 * 2**20
"""Memory of the requests that wait."""
_EVERY_S = 0.5
_OTHERS = 1000
"""Requests that one look for those of an hour may pass over."""
_ROWS_AT_ONCE = 4096
"""Candidates that become rows at once: 20 requests of 200 take 2 ms, half of what they take by fours."""


class Destination(Protocol):
    """Where requests are written.

    Attributes:
        counts: what was done, by name.
    """

    counts: Counter[str]

    def write(self, plan: Plan, requests: Sequence[Served]) -> int:
        """Writes requests of one version, and returns how many are written now; `counts` has what becomes of others.

        Raises:
            OSError: none is written.
        """

    def look_after(self) -> None:
        """Does what is due; called often."""

    def close(self) -> None:
        """Completes what was begun."""


class RequestQueue:
    """Takes requests from any thread, and writes them in a thread of its own.

    Attributes:
        counts: requests `chosen` and `written`, and those dropped, by `dropped REASON`.
    """

    def __init__(self, destination: Destination, *, max_bytes: int = _MAX_BYTES, has_key: bool = False):
        """Starts the thread."""
        self._destination, self._max_bytes, self._has_key = destination, max_bytes, has_key
        self._waiting: deque[tuple[Served, int]] = deque()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._bytes = 0
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._work, name="request_log", daemon=True)
        self._thread.start()

    def all_counts(self) -> Counter[str]:
        """Returns the counts of the queue and of the destination, and of the requests that are `waiting`."""
        with self._lock:
            return self.counts + self._destination.counts + Counter(waiting=len(self._waiting))

    def offer(self, request: Served) -> None:
        """Puts a request into the queue, or drops and counts it; never waits."""
        size = request.num_bytes
        with self._lock:
            self.counts["chosen"] += 1
            if self._bytes + size > self._max_bytes:
                self.counts["dropped queue"] += 1
                return
            self._bytes += size
            self._waiting.append((request, size))

    def refuse(self, reason: str) -> None:
        """Counts a request of the share that cannot be put into the queue."""
        with self._lock:
            self.counts["chosen"] += 1
        self._drop(reason, 1)

    def stop(self, wait_s: float) -> None:
        """Writes what waits, and completes the destination, within a time."""
        self._stopped.set()
        self._thread.join(wait_s)

    def _work(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopped.wait(_EVERY_S)
            try:
                while requests := self._take():
                    self._write(requests)
                    time.sleep(0)  # Requests come first.
                self._destination.look_after()
            except Exception as error:  # noqa: BLE001 The log must go on.
                _LOG.error("request_log=failed", error)
        try:
            self._destination.close()
        except Exception as error:  # noqa: BLE001 The server ends anyway.
            _LOG.error("request_log=not_closed", error)

    def _drop(self, reason: str, number: int) -> None:
        with self._lock:
            self.counts[f"dropped {reason}"] += number

    def _take(self) -> list[Served]:
        """Returns requests of one version and one hour, a bounded number of rows; those of others wait.

        Around the end of an hour they alternate, since a version in the shadow delays some: each change seals a file.
        """
        taken: list[Served] = []
        others: list[tuple[Served, int]] = []
        hour, rows, size = "", 0, 0
        while self._waiting and rows < _ROWS_AT_ONCE and len(others) < _OTHERS:
            request, num_bytes = self._waiting.popleft()
            if taken and (request.plan is not taken[0].plan or hour_folder(request.at_s) != hour):
                others.append((request, num_bytes))
                continue
            hour = hour_folder(request.at_s)
            taken.append(request)
            rows, size = rows + request.num_candidates, size + num_bytes
        with self._lock:
            self._waiting.extendleft(reversed(others))
            self._bytes -= size
        return taken

    def _write(self, requests: Sequence[Served]) -> None:
        plan = requests[0].plan
        if plan.needs_key and not self._has_key:
            self._drop("key", len(requests))
            _LOG.warning("request_log=no_key", "serving.log.redact hashes columns; start the server with --log-key")
            return
        try:
            number = self._destination.write(plan, requests)
        except OSError as error:
            self._drop("disk", len(requests))
            _LOG.warning("request_log=not_written", str(error))
        except Exception as error:  # noqa: BLE001 Caused by one of them: the others are logged.
            if len(requests) > 1:
                for request in requests:
                    self._write([request])
                return
            self._drop("error", 1)
            _LOG.error("request_log=not_written", error)
        else:
            with self._lock:
                self.counts["written"] += number
