"""Keeps lost workers of a standing tf.data service from blocking its clients.

TensorFlow's dispatcher never removes a worker. A client waits for the end of every worker's task, so a permanently lost
worker would keep an epoch from ending. After its tasks are ended, the ranks request their missing data again
(`input.train_input`).
"""

import logging
import threading
import time
from collections.abc import Callable

from sangam.trainer_module.input.service_calls import ServiceError, end_tasks, living, workers_of

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0


class LostWorkers:
    """Ends the tasks of workers that are silent for too long, while others answer.

    While no worker answers, none can read the missing data: the clients wait.
    """

    def __init__(
        self,
        dispatcher: str,
        lost_after_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        ended: Callable[[int], object] | None = None,
    ):
        """Takes the dispatcher; `begin` starts the checks.

        Args:
            dispatcher: host:port.
            lost_after_s: seconds of silence after which a worker is lost.
            clock: returns seconds.
            ended: called with the number of ended tasks.
        """
        self._dispatcher, self._lost_after_s, self._clock = dispatcher, lost_after_s, clock
        self._ended = ended or (lambda number: None)
        self._silent_since: dict[str, float] = {}
        self._lost: set[str] = set()

    def begin(self) -> None:
        """Starts periodic checks in a thread."""
        threading.Thread(target=self._look_on, daemon=True, name="lost-workers").start()

    def look(self) -> None:
        """Polls every worker, and ends the tasks of lost ones.

        Raises:
            ServiceError: the dispatcher does not answer.
        """
        workers = workers_of(self._dispatcher)
        alive, now = living(workers), self._clock()
        for worker in alive & self._lost:
            _LOG.info("worker=%s is back; it gets tasks from the next request on", worker)
        self._silent_since = {worker: self._silent_since.get(worker, now) for worker in workers if worker not in alive}
        lost = {worker for worker, since in self._silent_since.items() if now - since >= self._lost_after_s}
        for worker in lost - self._lost:
            _LOG.warning("worker=%s is lost: no answer for %.0f s", worker, self._lost_after_s)
        self._lost = lost
        if not alive:
            return
        for worker in lost:
            # Repeated, for tasks of requests since the last check.
            if ended := end_tasks(self._dispatcher, worker):
                _LOG.info("worker=%s tasks_ended=%d", worker, ended)
                self._ended(ended)

    def _look_on(self) -> None:
        while True:
            time.sleep(_EVERY_S)
            try:
                self.look()
            except ServiceError as error:
                _LOG.warning("%s", error)
