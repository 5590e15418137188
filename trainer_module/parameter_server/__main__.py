"""A parameter server's process: `python -m sangam.trainer_module.parameter_server JOB PARENT_PID NUMBER ATTEMPT`."""

from sangam.schemas.host.early_sigterm import exit_on
from sangam.schemas.host.needless_imports import leave_out_needless

if __name__ == "__main__":
    exit_on()  # Before the imports below.
    leave_out_needless()

import argparse
import logging
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.monitoring import PLACE
from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.schemas.derived.process_memory import message_bytes
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import write_whole
from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.schemas.spec.sync import Served
from sangam.trainer_module.monitoring.endpoint import Endpoint, new_registry
from sangam.trainer_module.monitoring.tables import TableMetrics
from sangam.trainer_module.parameter_server import delay
from sangam.trainer_module.parameter_server.server import Answer, Server
from sangam.trainer_module.parameter_server.service import Service
from sangam.trainer_module.parameter_server.wire import attempt_number

_LOG = logging.getLogger("sangam.trainer_module.parameter_server")
_METRICS_EVERY_S = 0.5


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sangam.trainer_module.parameter_server")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("parent_pid", type=int)
    parser.add_argument("number", type=int, help="of this server, from 0")
    parser.add_argument("attempt", help="name of the attempt that it serves")
    parser.add_argument("--host", default="127.0.0.1", help="to serve on, and under which ranks reach it")
    return parser.parse_args()


def main() -> int:
    """Serves one attempt until stopped; returns the exit code if it cannot serve."""
    arguments = _arguments()
    end_with_parent(arguments.parent_pid)
    log_to_stderr()
    try:
        _serve(arguments)
    except UserError as error:
        _LOG.error("%s", error)
    return ExitCode.MISTAKE


def _serve(arguments: argparse.Namespace) -> None:
    job = read_job(arguments.job_file)
    threads = job.ranker.cluster.threads_per_rank
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))
    sync = job.ranker.training.sync
    assert isinstance(sync, Served)
    service = Service(job, server=arguments.number)
    answer: Answer = service.answer
    if declared := os.environ.get(delay.VARIABLE):
        answer = delay.delayed(answer, declared)
    served = Server(
        answer,
        attempt=attempt_number(arguments.attempt),
        address=f"{arguments.host}:0",
        ranks=job.ranker.cluster.ranks,
        max_message_bytes=message_bytes(job.ranker),
    )
    address = f"{arguments.host}:{served.port}"
    _LOG.info("start server=%d address=%s attempt=%s mode=%s", arguments.number, address, arguments.attempt, sync.kind)
    metrics = _monitored(job, arguments.number)
    write_whole(job.server_file(arguments.number, arguments.attempt), address)
    while True:
        time.sleep(_METRICS_EVERY_S)
        if metrics is not None:
            metrics.set(service.table_counts())


def _monitored(job: TrainJob, number: int) -> TableMetrics | None:
    """Serves the metrics of this server's tables until the process ends; None if metrics are off."""
    if job.monitoring is None:
        return None
    registry = new_registry()
    metrics = TableMetrics(registry)
    port = job.monitoring.server_port(job.ranker.cluster, number)
    target = job.monitoring.target(job.ranker.name, f"parameter-server-{number}")
    Endpoint(registry, host=job.monitoring.host, port=port, place=PLACE, target=target)
    return metrics


if __name__ == "__main__":
    sys.exit(main())
