"""One process of the tf.data service pool: `python -m sangam.trainer_module.launch.data_service dispatcher|worker ...`.

SIGTERM ends it at once: its clients must handle lost workers anyway. On one machine it takes any free port, writes its
address to a file once it serves, and ends with its parent. In its own pod, or as `sangam input-service`, it serves on
a given port; a dispatcher with a work directory resumes after a restart, and a restarted worker keeps its advertised
address.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.monitoring import LOOPBACK, PLACE, Target
from sangam.schemas.errors import UserError
from sangam.schemas.host.early_sigterm import exit_on
from sangam.schemas.host.environment import drop_proxies, settle
from sangam.schemas.host.files import write_whole
from sangam.schemas.host.lock import LOCK_FILE, Lock, acquire
from sangam.schemas.host.needless_imports import leave_out_needless
from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.trainer_module.input.service_calls import ServiceError, workers_of
from sangam.trainer_module.launch.data_service_metrics import DispatcherMetrics, WorkerMetrics
from sangam.trainer_module.launch.lost_workers import LostWorkers
from sangam.trainer_module.monitoring.endpoint import Endpoint

_HEARTBEAT_MS = 1000
_POLL_S = 0.5


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sangam.trainer_module.launch.data_service")
    parser.add_argument("role", choices=["dispatcher", "worker"])
    parser.add_argument("--port", type=int, default=0, help="to serve on; 0 for any")
    parser.add_argument("--work-dir", type=Path, help="of a dispatcher that may be started again")
    parser.add_argument("--lost-after-s", type=float, help="silence after which the dispatcher does without a worker")
    dispatcher = parser.add_mutually_exclusive_group()
    dispatcher.add_argument("--dispatcher", help="host:port, for a worker")
    dispatcher.add_argument("--dispatcher-file", type=Path, help="where a dispatcher that starts writes its address")
    parser.add_argument("--patience-s", type=float, help="how long to wait for the dispatcher; none: for ever")
    parser.add_argument("--advertise", help="host:port under which ranks reach a worker; none: on this machine")
    parser.add_argument("--parent-pid", type=int, help="process to end with")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument("--address-file", type=Path, help="where to write the address")
    parser.add_argument("--metrics-port", type=int, help="for Prometheus; 0 for any; none: no metrics")
    parser.add_argument("--metrics-host", default=LOOPBACK, help="to listen on for Prometheus")
    parser.add_argument("--metrics-target", type=Path, help="file by which Prometheus finds the metrics")
    parser.add_argument("--metrics-labels", default="{}", help="of all metrics, for that file, as JSON")
    return parser.parse_args()


def _serve(arguments: argparse.Namespace) -> Any:
    import tensorflow as tf  # Takes seconds, during which SIGTERM must end the process too.

    service = tf.data.experimental.service
    if arguments.role == "worker":
        own = arguments.advertise or "localhost:%port%"
        return service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=arguments.dispatcher or _read_when_there(arguments.dispatcher_file),
                port=arguments.port,
                worker_address=own,
                data_transfer_address=own,
                heartbeat_interval_ms=_HEARTBEAT_MS,
            )
        )
    work_dir = arguments.work_dir
    return service.DispatchServer(
        service.DispatcherConfig(
            port=arguments.port,
            work_dir=str(work_dir) if work_dir else None,
            fault_tolerant_mode=work_dir is not None,
            worker_timeout_ms=10 * _HEARTBEAT_MS,
        )
    )


def _read_when_there(file: Path) -> str:
    # The parent of both processes ends this one if the dispatcher does not start.
    while not file.exists():
        time.sleep(0.05)
    return file.read_text()


def _check_port(port: int) -> None:
    """Refuses a port in use, for which TensorFlow's only error is "could not start gRPC server".

    Raises:
        UserError: this process cannot listen on the port.
    """
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        told = os.strerror(error.errno) if error.errno else error
        raise UserError(f"--port: cannot listen (got {port}: {told}); give a free port, or 0") from error


def _hold(work_dir: Path) -> Lock:
    """Returns the lock of a work directory, held until this process ends; two dispatchers would mix their journals.

    Raises:
        UserError: another dispatcher holds it, or it cannot be written.
    """
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--work-dir: cannot be written (got {work_dir}: {error.strerror}); give a folder that this user may write"
        ) from error
    return acquire(work_dir / LOCK_FILE, "--work-dir", "another dispatcher uses it")


def _wait_for(dispatcher: str, patience_s: float) -> None:
    """Waits until a dispatcher answers.

    Raises:
        UserError: it does not answer in time.
    """
    given_up = time.monotonic() + patience_s
    while True:
        try:
            workers_of(dispatcher)
            return
        except ServiceError as error:
            if time.monotonic() > given_up:
                raise UserError(
                    f"--dispatcher: no dispatcher within {patience_s:g} s (got {error}); "
                    "start `sangam input-service dispatcher` there first"
                ) from error
        time.sleep(_POLL_S)


def _monitored(arguments: argparse.Namespace) -> DispatcherMetrics | WorkerMetrics | None:
    """Serves metrics; None if they are off."""
    if arguments.metrics_port is None:
        return None
    metrics = DispatcherMetrics() if arguments.role == "dispatcher" else WorkerMetrics()
    target = None
    if arguments.metrics_target is not None:
        target = Target(arguments.metrics_target, json.loads(arguments.metrics_labels))
        # A killed process leaves the file; its replacement overwrites it.
        exit_on(before=target.withdraw)
        exit_on(signal.SIGINT, code=ExitCode.INTERRUPTED, before=target.withdraw)
    place = PLACE if arguments.parent_pid is not None else "--metrics-port"
    Endpoint(metrics.registry, host=arguments.metrics_host, port=arguments.metrics_port, place=place, target=target)
    return metrics


def _run(arguments: argparse.Namespace) -> None:
    _check_port(arguments.port)
    held = _hold(arguments.work_dir) if arguments.work_dir else None
    if arguments.patience_s is not None:
        _wait_for(arguments.dispatcher, arguments.patience_s)
    metrics = _monitored(arguments)
    server = _serve(arguments)
    if arguments.address_file:
        write_whole(arguments.address_file, server._address)
    if isinstance(metrics, WorkerMetrics):
        metrics.watch(server)
    elif metrics is not None:
        metrics.watch(server._address)
    if arguments.lost_after_s is not None:
        lost = metrics.lost_tasks.inc if isinstance(metrics, DispatcherMetrics) else None
        LostWorkers(server._address, arguments.lost_after_s, ended=lost).begin()
    address = arguments.advertise or server._address
    told = {"role": arguments.role, "address": address}
    print(json.dumps(told) if arguments.json else f"{arguments.role}: serving at {address}", flush=True)
    threading.Event().wait()
    del held


def main() -> int:
    """Serves until stopped; returns the exit code."""
    settle()
    drop_proxies(os.environ)  # TensorFlow has no other way to connect without them.
    exit_on()
    exit_on(signal.SIGINT, code=ExitCode.INTERRUPTED)
    leave_out_needless()
    log_to_stderr()
    arguments = _arguments()
    if arguments.parent_pid is not None:
        end_with_parent(arguments.parent_pid)
    try:
        _run(arguments)
    except UserError as error:
        print(error, file=sys.stderr)
        return ExitCode.MISTAKE
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
