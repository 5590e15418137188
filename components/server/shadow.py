"""Scores answered requests by a version that does not answer, and hands them to the log.

A request's thread only puts them into a bounded queue; one thread of the lowest priority scores, while the server has a
slot that no request uses.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sangam.components.request_log.served import Arrays, Served, is_in_share
from sangam.components.server.model import LoadedModel
from sangam.components.server.shadow_metrics import ERROR, GONE, OLD, QUEUE, STOPPED, ShadowMetrics
from sangam.schemas.host.limited_log import LimitedLog

_LOG = LimitedLog(logging.getLogger("sangam.components.server"))
_LOOK_EVERY_S = 0.05
"""Seconds between two looks at the queue, so that no request has to wake the thread, and the least that one waits: it
is answered by then."""
_LOWEST_PRIORITY = 19


@dataclass(frozen=True)
class Limits:
    """What may wait to be scored.

    Attributes:
        requests: number.
        num_bytes: memory.
        age_s: time in the queue.
    """

    requests: int = 1000
    num_bytes: int = 32 * 2**20
    age_s: float = 5.0


@dataclass(frozen=True)
class _Waiting:
    served: Served
    signature: str
    model: LoadedModel
    num_bytes: int
    since_s: float


class Scorer:
    """Takes requests from any thread, and scores them in a thread of its own."""

    def __init__(
        self,
        log: Callable[[Served], None],
        has_room: Callable[[], bool],
        metrics: ShadowMetrics,
        limits: Limits | None = None,
    ):
        """Starts the thread.

        Args:
            log: takes each request, scored or not.
            has_room: whether fewer requests run than may.
            metrics: counts.
            limits: of the queue.
        """
        self._log, self._has_room, self._metrics, self._limits = log, has_room, metrics, limits or Limits()
        self._current: tuple[LoadedModel, float] | None = None
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._lock, self._stopped = threading.Lock(), threading.Event()
        metrics.waiting.set_function(lambda: len(self._waiting))
        self._thread = threading.Thread(target=self._work, name="shadow", daemon=True)
        self._thread.start()

    def use(self, model: LoadedModel | None, share: float = 0.0) -> None:
        """Takes the version that scores from now on, and its share of the requests; None: none does."""
        self._current = None if model is None else (model, share)

    def offer(self, served: Served, signature: str) -> bool:
        """Takes an answered request of the share, which is logged later; never waits.

        Returns:
            False: it is not scored, and not logged by this object.
        """
        current = self._current
        if current is None or self._stopped.is_set() or not is_in_share(served.request_id, current[1]):
            return False
        waiting = _Waiting(served, signature, current[0], served.num_bytes, time.monotonic())
        with self._lock:
            is_full = (
                len(self._waiting) >= self._limits.requests or self._bytes + waiting.num_bytes > self._limits.num_bytes
            )
            if not is_full:
                self._waiting.append(waiting)
                self._bytes += waiting.num_bytes
        if is_full:
            self._metrics.drop(QUEUE)
        return not is_full

    def stop(self, wait_s: float) -> None:
        """Logs what waits without scores, after the request that is being scored, for which it waits so long."""
        self._stopped.set()
        self._thread.join(wait_s)
        while (waiting := self._pop()) is not None:
            self._metrics.drop(STOPPED)
            self._log(waiting.served)

    def _work(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        while not self._stopped.wait(_LOOK_EVERY_S):
            while (waiting := self._next()) is not None:
                self._log(self._scored(waiting))

    def _next(self) -> _Waiting | None:
        """Returns the next request that can be logged: it is scored now, or no more."""
        if self._stopped.is_set() or not self._waiting:
            return None
        first = self._waiting[0]
        is_answered = time.monotonic() - first.since_s >= _LOOK_EVERY_S
        return self._pop() if self._given_up(first) or (is_answered and self._has_room()) else None

    def _pop(self) -> _Waiting | None:
        with self._lock:
            if not self._waiting:
                return None
            waiting = self._waiting.popleft()
            self._bytes -= waiting.num_bytes
            return waiting

    def _given_up(self, waiting: _Waiting) -> str:
        """Returns why a request is not to be scored any more; empty if it is."""
        current = self._current
        if current is None or current[0] is not waiting.model:
            return GONE
        return OLD if time.monotonic() - waiting.since_s > self._limits.age_s else ""

    def _scored(self, waiting: _Waiting) -> Served:
        """Returns a request with the scores, or without if there are none."""
        served, reason = waiting.served, self._given_up(waiting)
        if not reason:
            try:
                start = time.perf_counter()
                scored = replace(served, shadow_version=waiting.model.version, shadow_scores=_scores(waiting))
                self._metrics.seconds.observe(time.perf_counter() - start)
                return scored
            except Exception as error:  # noqa: BLE001 Whatever it is, the request is logged.
                _LOG.error(f"shadow={waiting.model.version} failed", error)
                reason = ERROR
        self._metrics.drop(reason)
        return served


def _scores(waiting: _Waiting) -> Arrays:
    """Returns the scores of each candidate by task, of the tasks that the log has.

    Raises:
        Exception: the version fails, or gives no score for each candidate.
    """
    served, signature = waiting.served, waiting.model.signature(waiting.signature)
    outputs = waiting.model.run(signature, {name: served.inputs[name] for name in signature.inputs})
    return {
        task: np.asarray(outputs[task], np.float32).reshape(served.num_candidates)
        for task in served.plan.tasks
        if task in outputs
    }
