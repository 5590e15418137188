"""The server's metrics, in the format of Prometheus."""

import functools
import math
from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from sangam.components.server.deltas import Deltas, State

SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_ROWS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)

_REQUESTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


class Metrics:
    """The server's metrics, in a separate registry, so that one process can run several servers."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._children: dict[tuple[str, str, str, str], tuple[Counter, Histogram]] = {}
        labels = ("api", "method", "signature")
        self.requests = Counter(
            "sangam_requests", "Requests answered or refused.", (*labels, "code"), registry=self.registry
        )
        self.seconds = Histogram(
            "sangam_request_seconds",
            "Time of a request in the server, waiting included.",
            labels,
            buckets=SECONDS,
            registry=self.registry,
        )
        self.candidates = Histogram(
            "sangam_candidates", "Rows of a request.", ("signature",), buckets=_ROWS, registry=self.registry
        )
        text = "Requests answered by one call of the model."
        self.joined = Histogram("sangam_requests_per_call", text, buckets=_REQUESTS, registry=self.registry)
        self._rows: dict[str, Histogram] = {}
        self.in_flight = Gauge("sangam_requests_in_flight", "Requests running.", registry=self.registry)
        self.waiting = Gauge("sangam_requests_waiting", "Requests waiting for a slot.", registry=self.registry)
        self.connections = Gauge("sangam_rest_connections", "REST connections open.", registry=self.registry)
        self.dropped_connections = Counter(
            "sangam_dropped_connections",
            "REST connections closed because no complete request arrived in time.",
            ("reason",),
            registry=self.registry,
        )
        self.version = Gauge(
            "sangam_version_served", "1 for the version that is served.", ("name", "version"), registry=self.registry
        )
        self.refused_version = Gauge(
            "sangam_version_refused",
            "1 for a version that cannot be served.",
            ("name", "version", "reason"),
            registry=self.registry,
        )
        self.load_seconds = Gauge(
            "sangam_load_seconds",
            "Time that the served version took to be verified, loaded and warmed up.",
            registry=self.registry,
        )
        self._deltas: Deltas | None = None
        for name, text, value in (
            ("sangam_delta", "Number of the last delta that is served.", _number),
            ("sangam_delta_age_seconds", "Since that delta was published.", _age),
            ("sangam_delta_lag_seconds", "Since the newest event that is served was logged.", _lag),
            ("sangam_delta_rows", "Rows applied since the served version was loaded.", _rows),
            ("sangam_delta_removed", "Keys removed since then.", _removed),
            ("sangam_delta_refused", "1 while the next delta cannot be applied.", _is_refused),
        ):
            gauge = Gauge(name, text, registry=self.registry)
            gauge.set_function(functools.partial(self._of_deltas, value))
        self.swaps = Counter("sangam_swaps", "Changes from one version to another.", registry=self.registry)

    def follow(self, deltas: Deltas | None) -> None:
        """Takes the deltas of the version that is now served."""
        self._deltas = deltas

    def _of_deltas(self, value: Callable[[State], float | None]) -> float:
        found = value(self._deltas.state) if self._deltas else None
        return math.nan if found is None else float(found)

    def observe(self, api: str, method: str, signature: str, code: str, seconds: float) -> None:
        """Counts and times a request."""
        key = (api, method, signature, code)
        if key not in self._children:  # Looking one up by its labels takes longer than counting.
            self._children[key] = self.requests.labels(*key), self.seconds.labels(*key[:-1])
        requests, times = self._children[key]
        requests.inc()
        times.observe(seconds)

    def observe_rows(self, signature: str, num_rows: int) -> None:
        """Counts the rows of a request."""
        if signature not in self._rows:
            self._rows[signature] = self.candidates.labels(signature)
        self._rows[signature].observe(num_rows)

    def text(self) -> bytes:
        """Returns the page that Prometheus scrapes."""
        page: bytes = generate_latest(self.registry)
        return page


def _number(state: State) -> float | None:
    return state.place.number if state.place else None


def _age(state: State) -> float | None:
    return state.age_s()


def _lag(state: State) -> float | None:
    return state.lag_s()


def _rows(state: State) -> float:
    return state.rows


def _removed(state: State) -> float:
    return state.removed


def _is_refused(state: State) -> float:
    return float(bool(state.problem))
