"""The metrics of a process of the tf.data service.

TensorFlow reports neither the batches nor the bytes that a worker sends: the ranks count what they receive.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any

from prometheus_client import Counter, Gauge
from prometheus_client.core import CounterMetricFamily

from sangam.trainer_module.input.service_calls import ServiceError, living, workers_of
from sangam.trainer_module.monitoring.endpoint import new_registry

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 5.0
_IO = Path("/proc/self/io")


class DispatcherMetrics:
    """Metrics of a dispatcher.

    Attributes:
        registry: registry of the metrics.
        lost_tasks: counter, incremented through `lost_workers`.
    """

    def __init__(self) -> None:
        """Creates the metrics, before the dispatcher serves."""
        self.registry = registry = new_registry()
        self._registered = Gauge("sangam_input_workers", "Workers that have ever registered.", registry=registry)
        self._answering = Gauge("sangam_input_workers_answering", "Workers that answer now.", registry=registry)
        self.lost_tasks = Counter(
            "sangam_input_lost_tasks", "Tasks of lost workers that others read again.", registry=registry
        )

    def watch(self, dispatcher: str) -> None:
        """Polls a dispatcher and its workers in a thread.

        Args:
            dispatcher: host:port.
        """
        threading.Thread(target=self._look_on, args=(dispatcher,), daemon=True, name="metrics-workers").start()

    def _look_on(self, dispatcher: str) -> None:
        while True:
            try:
                workers = workers_of(dispatcher)
                self._registered.set(len(workers))
                self._answering.set(len(living(workers)))
            except ServiceError as error:
                _LOG.warning("metrics are not up to date: %s", error)
            time.sleep(_LOOK_EVERY_S)


class WorkerMetrics:
    """Metrics of a worker.

    Attributes:
        registry: registry of the metrics.
    """

    def __init__(self) -> None:
        """Creates the metrics, before the worker serves."""
        self.registry = new_registry()
        self._tasks = Gauge("sangam_input_tasks", "Epochs that it reads now, or parts of them.", registry=self.registry)
        self.registry.register(_ReadBytes())

    def watch(self, server: Any) -> None:
        """Takes the worker, tf.data's `WorkerServer`, once it serves."""
        self._tasks.set_function(server._num_tasks)


class _ReadBytes:
    """Bytes read from files by this process, as the kernel counts them: with Python modules, without sockets."""

    def describe(self) -> list[CounterMetricFamily]:
        """Returns the metric without a value."""
        return [CounterMetricFamily("sangam_input_read_bytes", "Read from files by this process.")]

    def collect(self) -> list[CounterMetricFamily]:
        """Returns the metric with its value."""
        [family] = self.describe()
        family.add_metric([], float(dict(line.split(": ") for line in _IO.read_text().splitlines())["rchar"]))
        return [family]
