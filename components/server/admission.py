"""Bounds the calls that run and the requests that wait: beyond that a server refuses instead of falling behind.

A server that computes requests whose deadline has passed answers none in time: its slots are busy with the oldest ones.
So a request that waits is dropped once its call would end too late, by how long calls have been taking; a call takes no
more requests along than it can answer in time; and once the longest waiting one has half of its time left, the newest
comes first, which has most. An idle server tries each request, however long its calls have been.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable

from sangam.components.server.request_error import Code, RequestError

_NEWEST = 0.1
"""Weight of the newest call in the mean time of a request of its kind."""
_MARGIN = 1.5
"""Times the mean time: calls vary, and an answer is to be written and sent."""
_MOST_KINDS = 64


class Ticket:
    """A request in the queue of waiting and running requests.

    Attributes:
        kind: key of the requests that can share a call.
    """

    def __init__(self, kind: Hashable = None):
        self.kind = kind
        self._is_called = self._is_dropped = False
        self._arrived_at = self._called_at = 0.0
        self._deadline = math.inf
        self._num_in_call = 1
        self._woken = threading.Lock()
        self._woken.acquire()


class Admission:
    """Slots for calls of the model. A call may answer several requests: its own, and waiting ones.

    A slot passes from a finished call to the longest waiting request, or above capacity to the newest.

    Attributes:
        num_running: requests in calls that run.
    """

    def __init__(self, *, max_running: int, max_waiting: int, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._max_running, self._max_waiting = max_running, max_waiting
        self._lock = threading.Lock()
        self._num_calls = 0
        self._waiting: deque[Ticket] = deque()
        self._request_s: dict[Hashable, float] = {}
        self.num_running = 0

    @property
    def num_waiting(self) -> int:
        """Requests waiting for a slot."""
        return len(self._waiting)

    def must_wait(self) -> bool:
        """Returns whether a new request would wait, with a good chance to be answered."""
        with self._lock:
            return (
                self._num_calls >= self._max_running
                and len(self._waiting) < self._max_waiting
                and not self._is_behind(self._clock())
            )

    def refuse_if_full(self) -> None:
        """Refuses a request that `enter` would refuse now.

        Raises:
            RequestError: too many requests wait.
        """
        if self._num_calls >= self._max_running and len(self._waiting) >= self._max_waiting:
            raise self._full()

    def enter(self, ticket: Ticket, deadline: float | None) -> bool:
        """Waits for a slot as long as `deadline`, of time.monotonic, can be met; `leave` must follow.

        Returns:
            False: another request's call has answered this one, and has ended; there is no slot to leave.

        Raises:
            RequestError: if too many requests wait, or the deadline cannot be met.
        """
        ticket._deadline = math.inf if deadline is None else deadline
        with self._lock:
            now = ticket._arrived_at = self._clock()
            if now >= ticket._deadline:
                raise _too_late()
            if self._num_calls < self._max_running:
                self._num_calls += 1
                self._call(ticket, now)
                return True
            if len(self._waiting) >= self._max_waiting:
                raise self._full()
            self._waiting.append(ticket)
        self._wait(ticket)
        return ticket._is_called

    def take(self, caller: Ticket) -> Ticket | None:
        """Returns a waiting request of the caller's kind for its call; None if none can be answered in time by it."""
        with self._lock:
            now = self._clock()
            for ticket in self._in_order(now):
                if ticket.kind != caller.kind or self._drop(ticket, now):
                    continue
                deadline = min(caller._deadline, ticket._deadline)
                if caller._called_at + self._expected_s(caller.kind, caller._num_in_call + 1) > deadline:
                    return None
                self._waiting.remove(ticket)
                caller._deadline = deadline
                caller._num_in_call += 1
                self.num_running += 1
                return ticket
        return None

    def leave(self, caller: Ticket, taken: Collection[Ticket] = ()) -> None:
        """Passes the caller's slot to a waiting request, and wakes the requests in `taken`."""
        with self._lock:
            now = self._clock()
            self._note(caller.kind, (now - caller._called_at) / caller._num_in_call)
            self.num_running -= 1 + len(taken)
            following = next((each for each in self._in_order(now) if not self._drop(each, now)), None)
            if following:
                self._waiting.remove(following)
                following._is_called = True
                self._call(following, now)
                following._woken.release()
            else:
                self._num_calls -= 1
        for ticket in taken:
            ticket._woken.release()

    def _call(self, ticket: Ticket, now: float) -> None:
        ticket._called_at = now
        self.num_running += 1

    def _is_behind(self, now: float) -> bool:
        """Returns whether the longest waiting request has less than half of its time left."""
        return bool(self._waiting) and now - self._waiting[0]._arrived_at > self._waiting[0]._deadline - now

    def _in_order(self, now: float) -> list[Ticket]:
        return list(reversed(self._waiting) if self._is_behind(now) else self._waiting)

    def _note(self, kind: Hashable, seconds: float) -> None:
        if len(self._request_s) >= _MOST_KINDS:  # Clients make them up.
            self._request_s.clear()
        mean = self._request_s.get(kind, 0.0)
        self._request_s[kind] = mean + _NEWEST * (seconds - mean)

    def _expected_s(self, kind: Hashable, num_requests: int) -> float:
        return _MARGIN * num_requests * self._request_s.get(kind, 0.0)

    def _drop(self, ticket: Ticket, now: float) -> bool:
        """Refuses a waiting request whose own call would end too late; returns whether."""
        ticket._is_dropped = now + self._expected_s(ticket.kind, 1) > ticket._deadline
        if ticket._is_dropped:
            self._waiting.remove(ticket)
            ticket._woken.release()
        return ticket._is_dropped

    def _full(self) -> RequestError:
        return RequestError(
            Code.RESOURCE_EXHAUSTED,
            f"server: busy (got {self.num_running} requests running and {len(self._waiting)} waiting); "
            "try again later, or at another replica",
        )

    def _wait(self, ticket: Ticket) -> None:
        # grpc gives calls without a deadline one in hundreds of years, beyond the longest timeout of a lock.
        left = min(max(0.0, ticket._deadline - self._clock()), threading.TIMEOUT_MAX)
        if not ticket._woken.acquire(timeout=left):
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                    raise _too_late()
            ticket._woken.acquire()  # It left the queue at the timeout.
        if ticket._is_dropped:
            raise _too_late()


def _too_late() -> RequestError:
    return RequestError(
        Code.DEADLINE_EXCEEDED, "deadline: passed before the request could run; allow more time, or send fewer at once"
    )
