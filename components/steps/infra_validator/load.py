"""Measures the latency of requests under `serving.load`."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from sangam.components.steps.infra_validator.bounds import Latency
from sangam.components.steps.infra_validator.predict import Ask
from sangam.components.steps.infra_validator.rows import Rows, Tensors, num_rows, rank_inputs, select, with_once
from sangam.schemas.contracts.export import RANK, ServedColumn
from sangam.schemas.spec.serving import Load

WARM_UP_REQUESTS = 5
"""Warm-up requests of each client: TensorFlow prepares for a new input shape during the first requests."""

NUM_REQUESTS = 8
"""Number of different requests, sent in turn."""

Connect = Callable[[], AbstractContextManager[Ask]]
"""Opens a new connection."""


@dataclass
class _Client:
    """Sends requests one after another over its own connection."""

    seconds: list[float] = field(default_factory=list)
    error: Exception | None = None

    def run(self, connect: Connect, requests: Sequence[Tensors], start: threading.Barrier, load_s: float) -> None:
        try:
            with connect() as ask:
                for number in range(WARM_UP_REQUESTS):
                    ask(RANK, requests[number % len(requests)])
                start.wait()
                end = time.perf_counter() + load_s
                while not self.seconds or time.perf_counter() < end:
                    started = time.perf_counter()
                    ask(RANK, requests[len(self.seconds) % len(requests)])
                    self.seconds.append(time.perf_counter() - started)
        except threading.BrokenBarrierError:
            pass  # Another client has failed and stores the error.
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            self.error = error
            start.abort()


def load_requests(
    rows: Rows, columns: Mapping[str, ServedColumn], once: Collection[str], candidates: int
) -> list[Tensors]:
    """Returns requests of so many rows each, with a single row of the columns `once`."""
    count, requests = num_rows(rows), []
    for number in range(NUM_REQUESTS):
        first = number * count // NUM_REQUESTS
        chosen = select(rows, [(first + offset) % count for offset in range(candidates)])
        requests.append(rank_inputs(with_once(chosen, once)[0], columns))
    return requests


def measure(connect: Connect, requests: Sequence[Tensors], load: Load) -> Latency:
    """Returns the latency of `rank` requests, which every client sends in turn for `load.seconds`.

    Args:
        connect: opens a connection.
        requests: inputs of `load.candidates` rows each.
        load: number of clients, and duration.

    Raises:
        Exception: of a failed request.
    """
    clients = [_Client() for _ in range(load.clients)]
    start = threading.Barrier(load.clients)
    threads = [
        threading.Thread(target=client.run, args=(connect, requests, start, load.seconds), daemon=True)
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.error is not None:
            raise client.error
    return latency_of([seconds for client in clients for seconds in client.seconds])


def latency_of(seconds: Sequence[float]) -> Latency:
    """Returns percentiles of the times; p99 of fewer than a hundred times is the longest."""
    p50, p99 = np.percentile(np.array(seconds) * 1000, (50, 99), method="higher")
    return Latency(p50_ms=round(float(p50), 3), p99_ms=round(float(p99), 3), requests=len(seconds))
