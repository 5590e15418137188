"""Keeps the workers that a standing tf.data service has lost from holding up its clients.

TensorFlow's dispatcher forgets no worker. A client waits for the end of every worker's task, so an epoch would not end
after a worker was lost for good. What the worker held is missing then, and the ranks ask for it again
(`input.train_input`).
"""

import logging
import threading
import time
from collections.abc import Callable

from trainer_module.input.service_calls import ServiceError, end_tasks, living, workers_of

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0


class LostWorkers:
    """Ends the tasks of workers that have been silent for too long, while others answer.

    While none answers there is nobody to read what these held: their clients wait.
    """

    def __init__(
        self,
        dispatcher: str,
        lost_after_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        ended: Callable[[int], object] | None = None,
    ):
        """Takes what to look after; `begin` starts to.

        Args:
            dispatcher: host:port.
            lost_after_s: how long a worker may be silent.
            clock: seconds.
            ended: is told how many tasks were ended.
        """
        self._dispatcher, self._lost_after_s, self._clock = dispatcher, lost_after_s, clock
        self._ended = ended or (lambda number: None)
        self._silent_since: dict[str, float] = {}
        self._lost: set[str] = set()

    def begin(self) -> None:
        """Looks from now on, in a thread."""
        threading.Thread(target=self._look_on, daemon=True, name="lost-workers").start()

    def look(self) -> None:
        """Asks every worker whether it is there, and ends the tasks of those that are lost.

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
            # Of each request that came since the last look, too.
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
