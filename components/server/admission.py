"""Bounds the requests that run and that wait: beyond that a server refuses requests instead of falling behind."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from components.server.request_error import Code, RequestError


class Admission:
    """Slots for requests.

    Attributes:
        num_running: requests with a slot.
        num_waiting: requests waiting for a slot.
    """

    def __init__(self, *, max_running: int, max_waiting: int):
        self._max_running, self._max_waiting = max_running, max_waiting
        self._changed = threading.Condition()
        self.num_running = self.num_waiting = 0

    @contextmanager
    def slot(self, deadline: float | None) -> Iterator[None]:
        """Holds a slot while a request runs; waits for one until `deadline`, of time.monotonic.

        Raises:
            RequestError: if too many requests wait, or the deadline passes.
        """
        with self._changed:
            if self.num_running >= self._max_running:
                self._wait(deadline)
            elif deadline is not None and time.monotonic() >= deadline:
                raise _too_late()
            self.num_running += 1
        try:
            yield
        finally:
            with self._changed:
                self.num_running -= 1
                self._changed.notify_all()

    def _wait(self, deadline: float | None) -> None:
        if self.num_waiting >= self._max_waiting:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"server: busy (got {self.num_running} requests running and {self.num_waiting} waiting); "
                "try again later, or at another replica",
            )
        self.num_waiting += 1
        try:
            # A gRPC call without a deadline has one in some hundred years, beyond the longest timeout of a lock.
            left = None if deadline is None else min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
            if not self._changed.wait_for(lambda: self.num_running < self._max_running, left):
                raise _too_late()
        finally:
            self.num_waiting -= 1


def _too_late() -> RequestError:
    return RequestError(
        Code.DEADLINE_EXCEEDED, "deadline: passed before the request could run; allow more time, or send fewer at once"
    )
