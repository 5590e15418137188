"""Metrics of drift: of all processes of a server together, computed when Prometheus asks, as often as that is cheap."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sangam.components.drift.comparison import Comparison, Drift
from sangam.components.drift.counting import ColumnDrift
from sangam.components.drift.watching import SHARE, Counted, DriftWatch, added, unpacked
from sangam.components.server.control import DRIFT, ask
from sangam.schemas.host.limited_log import LimitedLog

_LOG = LimitedLog(logging.getLogger("sangam.components.server"))
_MOST_COLUMNS = 50
"""Columns that have samples of their own; of more, those that are furthest beyond their bounds, or from training."""
_REAL_ZERO = 1e-6
Labelled = Iterator[tuple[tuple[str, ...], float]]


@dataclass(frozen=True)
class Told:
    """What one page tells.

    Attributes:
        hours: what was found, by the name of the hour.
        listed: columns with samples of their own, by the name of the hour.
    """

    hours: Mapping[str, Drift] = field(default_factory=dict)
    listed: Mapping[str, Mapping[str, ColumnDrift]] = field(default_factory=dict)


class DriftTelling:
    """Computes what a page tells, and keeps it for so long that computing takes its share of a core at most."""

    def __init__(self, watch: DriftWatch, control: Path | None):
        """Takes the sample of this process.

        Args:
            watch: sample of this process.
            control: folder of the sockets of all processes; None: there is no other.
        """
        self._watch, self._control = watch, control
        self._told, self._until = Told(), 0.0

    def __call__(self) -> Told:
        """Returns what is to be told."""
        if time.monotonic() >= self._until:
            began = time.thread_time()
            try:
                comparison = self._watch.served()
                self._told = Told() if comparison is None else self._found(comparison)
            except Exception as error:  # noqa: BLE001 The other metrics are told.
                self._told = Told()
                _LOG.error("drift=not_told", error)
            self._until = time.monotonic() + (time.thread_time() - began) / SHARE
        return self._told

    def _found(self, comparison: Comparison) -> Told:
        counted = added(comparison, self._parts())
        hours = {name: comparison.drift(counted.of(comparison, hour)) for name, hour in self._watch.now().items()}
        return Told(hours, {name: _furthest(drift.columns) for name, drift in hours.items()})

    def _parts(self) -> Iterator[Counted]:
        if self._control is None:
            own = self._watch.counted()
            return iter([own] if own else [])
        answers = (ask(file, DRIFT) for file in sorted(self._control.iterdir()))
        return (part for answer in answers if answer and (part := _unpacked(answer)))


def _unpacked(answer: bytes) -> Counted | None:
    try:
        return unpacked(answer)
    except ValueError:  # The process has ended while it answered.
        return None


def _furthest(columns: Mapping[str, ColumnDrift]) -> Mapping[str, ColumnDrift]:
    """Returns the columns that are listed, in the order of their names."""

    def distance(name: str) -> tuple[float, float]:
        column = columns[name]
        beyond = [
            column.distances[each] / max(bound, _REAL_ZERO)
            for each, bound in column.bounds.items()
            if each in column.distances
        ]
        return max(beyond, default=0.0), max(column.distances.values(), default=0.0)

    return {name: columns[name] for name in sorted(sorted(columns, key=distance, reverse=True)[:_MOST_COLUMNS])}


def _distances(told: Told) -> Labelled:
    for hour, listed in told.listed.items():
        for name, column in listed.items():
            yield from (((name, measure, hour), value) for measure, value in column.distances.items())


def _bounds(told: Told) -> Labelled:
    listed = {name: column for each in told.listed.values() for name, column in each.items()}
    for name, column in sorted(listed.items()):
        yield from (((name, measure), bound) for measure, bound in column.bounds.items())


def _missing(told: Told) -> Labelled:
    for hour, listed in told.listed.items():
        yield from (((name, hour), column.missing) for name, column in listed.items())


def _trained_missing(told: Told) -> Labelled:
    listed = {name: column for each in told.listed.values() for name, column in each.items()}
    yield from (((name,), column.trained_missing) for name, column in sorted(listed.items()))


def _scores(told: Told) -> Labelled:
    for hour, drift in told.hours.items():
        yield from (((task, hour), value) for task, value in drift.scores.items())


def _rows(told: Told) -> Labelled:
    yield from (((hour,), drift.rows) for hour, drift in told.hours.items())


def _columns(told: Told) -> Labelled:
    yield from (((hour,), len(drift.columns)) for hour, drift in told.hours.items())


def _over(told: Told) -> Labelled:
    for hour, drift in told.hours.items():
        yield (hour,), sum(bool(column.over) for column in drift.columns.values())


def _unlisted(told: Told) -> Labelled:
    for hour, drift in told.hours.items():
        yield (hour,), len(drift.columns) - len(told.listed[hour])


def _largest_unlisted(told: Told) -> Labelled:
    for hour, drift in told.hours.items():
        largest: dict[str, float] = {}
        for name in drift.columns.keys() - told.listed[hour].keys():
            for measure, value in drift.columns[name].distances.items():
                largest[measure] = max(value, largest.get(measure, 0.0))
        yield from (((measure, hour), value) for measure, value in sorted(largest.items()))


_FAMILIES: tuple[tuple[str, str, tuple[str, ...], Callable[[Told], Labelled]], ...] = (
    (
        "sangam_drift",
        "Distance of a column's live values from the training split's.",
        ("column", "measure", "hour"),
        _distances,
    ),
    ("sangam_drift_bound", "Largest distance that the spec allows.", ("column", "measure"), _bounds),
    ("sangam_live_missing_share", "Share of the live rows without a value of a column.", ("column", "hour"), _missing),
    ("sangam_trained_missing_share", "The same share of the training split.", ("column",), _trained_missing),
    (
        "sangam_score_drift",
        "Distance of a task's live scores from those of the evaluation split.",
        ("task", "hour"),
        _scores,
    ),
    ("sangam_drift_rows", "Live rows that were compared.", ("hour",), _rows),
    ("sangam_drift_columns", "Columns that were compared.", ("hour",), _columns),
    ("sangam_drift_columns_over", "Columns of these that are further than the spec allows.", ("hour",), _over),
    ("sangam_drift_columns_unlisted", "Columns of these without samples of their own.", ("hour",), _unlisted),
    (
        "sangam_drift_unlisted",
        "Largest distance of a column without samples of its own.",
        ("measure", "hour"),
        _largest_unlisted,
    ),
)


def register(registry: CollectorRegistry, told: Callable[[], Told]) -> None:
    """Registers the metrics."""
    for name, text, labels, values in _FAMILIES:
        registry.register(_Family(name, text, labels, told, values))


class _Family(Collector):
    def __init__(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        told: Callable[[], Told],
        values: Callable[[Told], Labelled],
    ):
        self._name, self._text, self._labelnames = name, text, labels
        self._told, self._values = told, values

    def describe(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(self._name, self._text, labels=self._labelnames)

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labelnames)
        for labels, value in self._values(self._told()):
            family.add_metric(labels, value)
        yield family
