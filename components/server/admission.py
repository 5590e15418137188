"""Bounds the calls that run and the requests that wait: beyond that a server refuses instead of falling behind."""

import threading
import time
from collections import deque
from collections.abc import Collection, Hashable

from sangam.components.server.request_error import Code, RequestError


class Ticket:
    """A request in the queue of waiting and running requests.

    Attributes:
        kind: key of the requests that can share a call.
    """

    def __init__(self, kind: Hashable = None):
        self.kind = kind
        self._is_called = False
        self._woken = threading.Lock()
        self._woken.acquire()


class Admission:
    """Slots for calls of the model. A call may answer several requests: its own, and waiting ones.

    A slot passes from a finished call to the oldest waiting request.

    Attributes:
        num_running: requests in calls that run.
    """

    def __init__(self, *, max_running: int, max_waiting: int):
        self._max_running, self._max_waiting = max_running, max_waiting
        self._lock = threading.Lock()
        self._num_calls = 0
        self._waiting: deque[Ticket] = deque()
        self.num_running = 0

    @property
    def num_waiting(self) -> int:
        """Requests waiting for a slot."""
        return len(self._waiting)

    def must_wait(self) -> bool:
        """Returns whether a new request would wait, and not be refused."""
        return self._num_calls >= self._max_running and len(self._waiting) < self._max_waiting

    def refuse_if_full(self) -> None:
        """Refuses a request that `enter` would refuse now.

        Raises:
            RequestError: too many requests wait.
        """
        if self._num_calls >= self._max_running and len(self._waiting) >= self._max_waiting:
            raise self._full()

    def enter(self, ticket: Ticket, deadline: float | None) -> bool:
        """Waits for a slot until `deadline`, of time.monotonic; `leave` must follow.

        Returns:
            False: another request's call has answered this one, and has ended; there is no slot to leave.

        Raises:
            RequestError: if too many requests wait, or the deadline passes.
        """
        with self._lock:
            if deadline is not None and time.monotonic() >= deadline:
                raise _too_late()
            if self._num_calls < self._max_running:
                self._num_calls += 1
                self.num_running += 1
                return True
            if len(self._waiting) >= self._max_waiting:
                raise self._full()
            self._waiting.append(ticket)
        self._wait(ticket, deadline)
        return ticket._is_called

    def take(self, kind: Hashable) -> Ticket | None:
        """Returns the request of this kind that has waited longest, for the caller's own call; None if none waits."""
        with self._lock:
            for ticket in self._waiting:
                if ticket.kind == kind:
                    self._waiting.remove(ticket)
                    self.num_running += 1
                    return ticket
        return None

    def leave(self, taken: Collection[Ticket] = ()) -> None:
        """Passes the slot to the longest waiting request, and wakes the requests in `taken`."""
        with self._lock:
            self.num_running -= 1 + len(taken)
            if self._waiting:
                following = self._waiting.popleft()
                following._is_called = True
                self.num_running += 1
                following._woken.release()
            else:
                self._num_calls -= 1
        for ticket in taken:
            ticket._woken.release()

    def _full(self) -> RequestError:
        return RequestError(
            Code.RESOURCE_EXHAUSTED,
            f"server: busy (got {self.num_running} requests running and {len(self._waiting)} waiting); "
            "try again later, or at another replica",
        )

    def _wait(self, ticket: Ticket, deadline: float | None) -> None:
        # grpc gives calls without a deadline one in hundreds of years, beyond the longest timeout of a lock.
        left = -1.0 if deadline is None else min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
        if ticket._woken.acquire(timeout=left):
            return
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                raise _too_late()
        ticket._woken.acquire()  # Another call took it at the timeout.


def _too_late() -> RequestError:
    return RequestError(
        Code.DEADLINE_EXCEEDED, "deadline: passed before the request could run; allow more time, or send fewer at once"
    )
