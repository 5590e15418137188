"""Assembles the parts of a server."""

import logging
from pathlib import Path

import tensorflow as tf
from prometheus_client import CollectorRegistry, generate_latest

from sangam.components.drift.watching import DriftWatch
from sangam.components.registry import versions as folders
from sangam.components.server import drift_metrics
from sangam.components.server.admission import Admission
from sangam.components.server.grpc_service import GrpcServer
from sangam.components.server.log_metrics import LogMetrics
from sangam.components.server.metrics import Metrics
from sangam.components.server.model import NotServable, ranker_name
from sangam.components.server.options import Options
from sangam.components.server.predictor import Predictor
from sangam.components.server.rest import RestServer
from sangam.components.server.served_log import ServerLog, open_queue
from sangam.components.server.shadow import Scorer
from sangam.components.server.shadow_metrics import ShadowMetrics
from sangam.components.server.shadow_versions import ShadowVersions
from sangam.components.server.versions import Versions
from sangam.components.server.workers_metrics import page_of_all

_LOG = logging.getLogger("sangam.components.server")
_ABORT_S = 1.0
"""Time to abort calls after the grace period."""


class Serving:
    """A server: its versions, and once it listens its interfaces. It answers once a version is ready.

    Attributes:
        name: name of the model in requests.
        versions: versions of the model; to be started.
        metrics: metrics of this process.
        drift: what of its requests is compared with training.
    """

    def __init__(self, options: Options):
        """Neither listens nor loads a version."""
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(options.threads_per_request)
        tf.config.threading.set_inter_op_parallelism_threads(options.num_threads)
        self.name = options.name or _name_of(options.directory)
        self.metrics = Metrics()
        self._admission = Admission(max_running=options.num_threads, max_waiting=options.max_queued)
        self._log: ServerLog | None = None
        shadow: ShadowVersions | None = None
        if options.log:
            self._log, shadow = self._logged(options)
        self.versions = Versions(
            name=self.name,
            folder=options.directory,
            poll_s=options.poll_s,
            metrics=self.metrics,
            changed=self._tell_health,
            map_tables=options.map_tables,
            shadow=shadow,
        )
        self.drift = DriftWatch(self.versions.compared)
        control = options.control.parent if options.control else None
        # Counts of several processes add up, distances do not: whichever is asked computes one for all.
        self._drift_registry = CollectorRegistry() if control else self.metrics.registry
        drift_metrics.register(self._drift_registry, drift_metrics.DriftTelling(self.drift, control))
        self._predictor = Predictor(
            name=self.name,
            versions=self.versions,
            admission=self._admission,
            metrics=self.metrics,
            max_rows=options.max_rows,
            max_batch_rows=options.max_batch_rows,
            max_bytes=options.max_message_bytes,
            allow_updates=options.allow_updates,
            log=self._log,
            drift=self.drift,
        )
        self._options = options
        self._grpc: GrpcServer | None = None
        self._rest: RestServer | None = None

    def listen(self) -> tuple[int, int]:
        """Starts to answer requests; returns the ports of gRPC and REST."""
        options, control = self._options, self._options.control
        num_requests = options.num_threads + options.max_queued
        self._grpc = GrpcServer(
            self._predictor,
            address=options.address(options.grpc_port),
            num_requests=num_requests,
            shares_port=control is not None,
        )
        self._rest = RestServer(
            self._predictor,
            host=options.host,
            port=options.rest_port,
            num_requests=num_requests,
            timeout_s=options.rest_timeout_s,
            max_connections=options.max_connections,
            shares_port=control is not None,
            metrics_page=self._page,
        )
        self._grpc.start()
        self._tell_health()
        return self._grpc.port, self._rest.port

    def stop(self, grace_s: float) -> None:
        """Reports that it is not ready, accepts no new requests, and waits for the running ones."""
        self.versions.stop()
        num_running = self._admission.num_running
        if self._grpc and self._rest:
            self._grpc.set_ready(False)
            self._rest.set_draining()
            ended = self._grpc.stop(grace_s)
            self._rest.stop(grace_s)
            ended.wait(_ABORT_S)
        self.drift.stop()
        if self._log:
            self._log.stop()
        left = self._admission.num_running
        _LOG.info("model=%s stopped=true requests_drained=%d requests_left=%d", self.name, num_running - left, left)

    def _page(self) -> bytes:
        """Returns the metrics of all processes of the server."""
        control = self._options.control
        if control is None:
            return self.metrics.text()
        drift: bytes = generate_latest(self._drift_registry)
        return page_of_all(control.parent) + drift

    def _logged(self, options: Options) -> tuple[ServerLog, ShadowVersions]:
        """Opens the log, and what follows the version that scores requests before they are logged."""
        queue = open_queue(options.log, options.log_key, options.log_kafka_config)
        LogMetrics(self.metrics.registry, queue.all_counts)
        metrics = ShadowMetrics(self.metrics.registry)
        scorer = Scorer(queue.offer, lambda: self._admission.num_running < options.num_threads, metrics)
        shadow = ShadowVersions(
            name=self.name, folder=options.directory, scorer=scorer, metrics=metrics, map_tables=options.map_tables
        )
        return ServerLog(queue, scorer), shadow

    def _tell_health(self) -> None:
        if self._grpc:
            self._grpc.set_ready(self.versions.is_ready())


def _name_of(directory: Path) -> str:
    """Returns the name in the newest model's ranker.json, or else the name of the folder of versions."""
    directory = directory.resolve()
    versions = folders.versions(directory)
    model = directory / versions[-1] if versions else directory
    try:
        name = ranker_name(model)
    except NotServable:
        name = None  # Loading reports this error.
    return name or (directory.parent.name if directory.name.isdecimal() else directory.name)
