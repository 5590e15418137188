"""A pool of Beam workers for engines: `python -m sangam.components.beam.worker_pool`, from the pipeline's own image.

An engine asks the pool for a worker, a process, and the worker connects to the engine: `--environment_type=EXTERNAL`.
Beam's own pool (apache_beam/runners/worker/worker_pool_main.py) starts `python` from the PATH, and kills a worker by
its engine's id for it. Two TaskManagers of Flink use equal ids ("1-1"): on one pool, the first that stops its worker
kills the other's, and the job hangs. Here a worker ends with the engine that it is connected to.
"""

import argparse
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from sangam.components.beam.code_version import code_version
from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.schemas.host.grpc_calls import BoundedCalls
from sangam.schemas.host.plain_text import log_to_stderr

_LOG = logging.getLogger(__name__)
_WORKER = "sangam.components.beam.worker"
_GRACE_S = 5.0
_REAP_S = 10.0
_THREADS = 64
_ARRIVAL_TIMEOUT_S = 30.0
_MAX_MESSAGE_BYTES = 2**20
NEEDED = {"TF_USE_LEGACY_KERAS": "1"}
"""Environment variables that each worker needs before it imports TensorFlow."""


class WorkerPool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Starts workers, and ends the remaining ones when the pool ends."""

    def __init__(self) -> None:
        self._workers: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Starts a worker process for an engine."""
        del context
        command = [sys.executable, "-W", "ignore", "-m", _WORKER, "--id", request.worker_id]
        command += ["--control", request.control_endpoint.url, "--logging", request.logging_endpoint.url]
        command += ["--provision", request.provision_endpoint.url]
        try:
            # Its output goes to the pool's log. Ctrl-C on the pool's terminal signals only the pool.
            worker = subprocess.Popen(
                command, env=os.environ | NEEDED, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=f"worker pool: cannot start a worker (got {error})")
        with self._lock:
            self._workers.append(worker)
        _LOG.info(
            "event=worker_started id=%s pid=%d control=%s", request.worker_id, worker.pid, request.control_endpoint.url
        )
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:
        """Does nothing: the worker ends when its engine closes the connection."""
        del context
        _LOG.info("event=worker_released id=%s", request.worker_id)
        return beam_fn_api_pb2.StopWorkerResponse()

    def reap(self) -> None:
        """Forgets the workers that have ended."""
        with self._lock:
            ended = [worker for worker in self._workers if worker.poll() is not None]
            self._workers = [worker for worker in self._workers if worker not in ended]
        for worker in ended:
            _LOG.info("event=worker_ended pid=%d exit_code=%d", worker.pid, worker.returncode)

    def end(self) -> None:
        """Ends the remaining workers: SIGTERM, then SIGKILL."""
        with self._lock:
            for worker in self._workers:
                worker.terminate()
            for worker in self._workers:
                try:
                    worker.wait(_GRACE_S)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    worker.wait()
            self._workers = []


def serve(address: str) -> int:
    """Serves until a signal arrives; returns the exit code."""
    pool = WorkerPool()
    # The options of Beam's own pool: engines keep connections open for a long time.
    server = grpc.server(
        futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="worker-pool"),
        interceptors=[BoundedCalls(max_waiting=_THREADS // 2, timeout_s=_ARRIVAL_TIMEOUT_S)],
        maximum_concurrent_rpcs=_THREADS,
        options=[
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.server_handshake_timeout_ms", 10_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.so_reuseport", 0),
        ],
    )
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    with StopSignals() as stop:
        try:
            with stop.raised():
                port = server.add_insecure_port(address)
                server.start()
                _LOG.info("event=pool_ready address=%s:%d code=%s", address.rpartition(":")[0], port, code_version())
                while True:
                    time.sleep(_REAP_S)
                    pool.reap()
        except Stopped as stopped:
            return stopped.exit_code
        finally:
            server.stop(None)
            pool.end()


def main(arguments: Sequence[str]) -> int:
    """Runs the pool."""
    parser = argparse.ArgumentParser(
        prog="python -m sangam.components.beam.worker_pool", description="A pool of Beam workers."
    )
    parser.add_argument("--port", type=int, default=50000, help="to listen on (%(default)s)")
    parser.add_argument(
        "--host",
        default="localhost",
        help="to listen on (%(default)s); any client can start workers, which run the code that they get",
    )
    given = parser.parse_args(arguments)
    log_to_stderr()
    return serve(f"{given.host}:{given.port}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
