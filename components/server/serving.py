"""Assembles the parts of a server."""

import logging
from pathlib import Path

import tensorflow as tf

from sangam.components.registry import versions as folders
from sangam.components.server.admission import Admission
from sangam.components.server.grpc_service import GrpcServer
from sangam.components.server.log_metrics import LogMetrics
from sangam.components.server.metrics import Metrics
from sangam.components.server.model import NotServable, ranker_name
from sangam.components.server.options import Options
from sangam.components.server.predictor import Predictor
from sangam.components.server.rest import RestServer
from sangam.components.server.served_log import open_log
from sangam.components.server.versions import Versions

_LOG = logging.getLogger("sangam.components.server")
_ABORT_S = 1.0
"""Time to abort calls after the grace period."""


class Serving:
    """A server that listens; it answers once a version is ready.

    Attributes:
        name: name of the model in requests.
        versions: versions of the model.
        grpc: the gRPC interface.
        rest: the REST interface.
    """

    def __init__(self, options: Options):
        """Binds both ports, without loading a version."""
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(options.threads_per_request)
        tf.config.threading.set_inter_op_parallelism_threads(options.num_threads)
        self.name = options.name or _name_of(options.directory)
        metrics = Metrics()
        self._log = open_log(options.log, options.log_key, options.log_kafka_config) if options.log else None
        if self._log:
            LogMetrics(metrics.registry, self._log.counts)
        self.versions = Versions(
            name=self.name,
            folder=options.directory,
            poll_s=options.poll_s,
            metrics=metrics,
            changed=lambda: self.grpc.set_ready(self.versions.is_ready()),
            map_tables=options.map_tables,
        )
        self._admission = Admission(max_running=options.num_threads, max_waiting=options.max_queued)
        predictor = Predictor(
            name=self.name,
            versions=self.versions,
            admission=self._admission,
            metrics=metrics,
            max_rows=options.max_rows,
            max_batch_rows=options.max_batch_rows,
            max_bytes=options.max_message_bytes,
            allow_updates=options.allow_updates,
            log=self._log,
        )
        num_requests = options.num_threads + options.max_queued
        self.grpc = GrpcServer(predictor, address=options.address(options.grpc_port), num_requests=num_requests)
        self.rest = RestServer(
            predictor,
            host=options.host,
            port=options.rest_port,
            num_requests=num_requests,
            timeout_s=options.rest_timeout_s,
            max_connections=options.max_connections,
        )

    def start(self) -> None:
        """Starts to answer requests, and to load and watch versions."""
        self.grpc.start()
        self.versions.start()

    def stop(self, grace_s: float) -> None:
        """Reports that it is not ready, accepts no new requests, and waits for the running ones."""
        self.versions.stop()
        self.grpc.set_ready(False)
        self.rest.set_draining()
        num_running = self._admission.num_running
        ended = self.grpc.stop(grace_s)
        self.rest.stop(grace_s)
        ended.wait(_ABORT_S)
        if self._log:
            self._log.stop()
        left = self._admission.num_running
        _LOG.info("model=%s stopped=true requests_drained=%d requests_left=%d", self.name, num_running - left, left)


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
