"""Ends a rank that waits for a lost input service: TensorFlow's client would wait for an hour."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.input.service_calls import ServiceError, living, workers_of

_LOG = logging.getLogger("sangam.trainer_module.rank")
_EVERY_S = 1.0
_SHORT_WAIT_S = 2.0


class ServiceWatch:
    """Watches the service while the rank waits for its answer."""

    def __init__(
        self,
        service: str,
        timeout_s: float,
        give_up: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        trouble: Callable[[str], str | None] | None = None,
    ):
        """Takes the services to watch; `begin` starts.

        Args:
            service: host:port of the dispatcher.
            timeout_s: longest silence.
            give_up: called with the reason, by a thread of the watch.
            clock: seconds.
            trouble: returns the fault of a service; None: `trouble_with`.
        """
        self._service, self._timeout_s, self._give_up = service, timeout_s, give_up
        self._clock, self._trouble = clock, trouble or trouble_with
        self._waiting_since: float | None = None
        self._silent_since: float | None = None

    def begin(self) -> "ServiceWatch":
        """Looks from now on, in a thread."""
        threading.Thread(target=self._look_on, daemon=True, name="service-watch").start()
        return self

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Says that the rank waits for the service while the body runs."""
        self._waiting_since = self._clock()
        try:
            yield
        finally:
            self._waiting_since = None

    def look(self) -> None:
        """Calls the service if the rank waits for it; gives up after too long a silence."""
        since = self._waiting_since
        if since is None or self._clock() - since < _SHORT_WAIT_S:
            self._silent_since = None
            return
        trouble = self._trouble(self._service)
        if trouble is None:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = self._clock()
            _LOG.warning("waiting for the input service address=%s: %s", self._service, trouble)
        elif self._clock() - self._silent_since >= self._timeout_s:
            self._give_up(trouble)

    def _look_on(self) -> None:
        while True:
            time.sleep(_EVERY_S)
            self.look()


def trouble_with(service: str) -> str | None:
    """Returns why no examples can come from a service, None if some can."""
    try:
        workers = workers_of(service)
    except ServiceError as error:
        return f"the dispatcher: {error}"
    if not workers:
        return "it has no worker"
    return None if living(workers) else f"none of its workers answers: {', '.join(workers)}"


def watch_of(job: TrainJob, rank: int) -> ServiceWatch | None:
    """Returns the watch over the service that a job has joined; None where it has its own."""
    joined = job.ranker.cluster.input_service
    if joined is None:
        return None
    address, timeout_s = joined.address, joined.timeout_s

    def end_rank(trouble: str) -> None:
        text = (
            f"cluster.input_service: no examples for {timeout_s} s (got {address}: {trouble}); start `sangam "
            f"input-service dispatcher` there and `sangam input-service worker --dispatcher {address}`, then train "
            "again: it resumes from the last checkpoint"
        )
        _give_up(job.mistake_file(rank), text)

    return ServiceWatch(address, timeout_s, end_rank).begin()


def _give_up(mistake_file: Path, text: str) -> None:
    mistake_file.write_text(text)
    _LOG.error("%s", text)
    logging.shutdown()
    # The rank's own thread is inside TensorFlow, where no exception reaches it.
    os._exit(ExitCode.MISTAKE)
