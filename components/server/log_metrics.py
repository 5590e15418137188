"""Metrics of the log of requests, read from its counts when Prometheus asks."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_DROPPED = "dropped "
_REASONS = ("broker", "disk", "error", "id", "key", "queue", "size")
"""Told as 0 from the start: Prometheus sees no increase in a counter that begins with 1."""
_COUNTS = {
    "chosen": "Requests in the declared share.",
    "written": "Requests written to the log.",
    "bytes": "Bytes written, before compression.",
    "files": "Files sealed.",
    "recovered": "Requests of servers that had ended, sealed by this one.",
    "torn": "Files of such servers that ended within requests, which are lost.",
    "lost": "Requests written to files that others removed before they were sealed.",
    "removed": "Files removed, as older or more than the settings allow.",
}


class LogMetrics:
    """The metrics of one log."""

    def __init__(self, registry: CollectorRegistry, counts: Callable[[], Counter[str]]):
        """Registers them.

        Args:
            registry: the server's.
            counts: returns the counts of `RequestQueue.all_counts`.
        """

        def counter(name: str) -> Iterator[tuple[str, float]]:
            yield "", counts()[name]

        def dropped() -> Iterator[tuple[str, float]]:
            counted = counts()
            told = {name.removeprefix(_DROPPED) for name in counted if name.startswith(_DROPPED)}
            return ((reason, counted[_DROPPED + reason]) for reason in sorted(told.union(_REASONS)))

        for name, text in _COUNTS.items():
            registry.register(_Counts(f"sangam_request_log_{name}", text, (), partial(counter, name)))
        text = "Requests of the share that are not logged."
        registry.register(_Counts("sangam_request_log_dropped", text, ("reason",), dropped))
        registry.register(_Waiting(counts))


class _Counts(Collector):
    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], values: Callable[[], Iterator[tuple[str, float]]]
    ):
        self._name, self._text, self._labelnames, self._values = name, text, labels, values

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._text, labels=self._labelnames)

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labelnames)
        for label, number in self._values():
            family.add_metric([label] if self._labelnames else [], number)
        yield family


class _Waiting(Collector):
    _name, _text = "sangam_request_log_waiting", "Requests that wait to be written."

    def __init__(self, counts: Callable[[], Counter[str]]):
        self._counts = counts

    def describe(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(self._name, self._text)

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(self._name, self._text, value=self._counts()["waiting"])
