"""How many requests run at once, and how many may wait: past that a server says no rather than fall behind."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from components.server.request_error import Code, Refused


class Admission:
    """Places for requests.

    Attributes:
        num_running: requests now running.
        num_waiting: requests now waiting for one of those to end.
    """

    def __init__(self, *, max_running: int, max_waiting: int):
        self._max_running, self._max_waiting = max_running, max_waiting
        self._changed = threading.Condition()
        self.num_running = self.num_waiting = 0

    @contextmanager
    def place(self, deadline: float | None) -> Iterator[None]:
        """Holds a place while a request runs; waits for one until `deadline`, of time.monotonic.

        Raises:
            Refused: when there is no place to wait in, or the deadline passes.
        """
        with self._changed:
            if self.num_running >= self._max_running:
                self._wait(deadline)
            elif deadline is not None and time.monotonic() >= deadline:
                raise _late()
            self.num_running += 1
        try:
            yield
        finally:
            with self._changed:
                self.num_running -= 1
                self._changed.notify_all()

    def _wait(self, deadline: float | None) -> None:
        if self.num_waiting >= self._max_waiting:
            raise Refused(
                Code.RESOURCE_EXHAUSTED,
                f"server: busy (got {self.num_running} requests running and {self.num_waiting} waiting); "
                "try again later, or at another replica",
            )
        self.num_waiting += 1
        try:
            # A call of gRPC without a deadline has one in some hundred years, more than a lock can be told.
            left = None if deadline is None else min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
            if not self._changed.wait_for(lambda: self.num_running < self._max_running, left):
                raise _late()
        finally:
            self.num_waiting -= 1


def _late() -> Refused:
    return Refused(
        Code.DEADLINE_EXCEEDED, "deadline: passed before the request could run; allow more time, or send fewer at once"
    )
