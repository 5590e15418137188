"""The process of one rank: `python -m sangam.trainer_module JOB PARENT_PID SERVICE ATTEMPT`, started by `launch`."""

from sangam.schemas.host.needless_imports import leave_out_needless

if __name__ == "__main__":
    leave_out_needless()  # Before the imports below.

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.monitoring import PLACE
from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.schemas.errors import UserError
from sangam.schemas.host import gpus
from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.trainer_module import collectives, placement
from sangam.trainer_module.embedding.row_store import full_store
from sangam.trainer_module.loop.epoch import NotFiniteError
from sangam.trainer_module.loop.training import train
from sangam.trainer_module.monitoring.endpoint import Endpoint
from sangam.trainer_module.monitoring.training import Metrics, TrainingMetrics
from sangam.trainer_module.online.learning import learn
from sangam.trainer_module.parameter_server.client import find_servers

_LOG = logging.getLogger("sangam.trainer_module.rank")


def main(job_file: str, parent_pid: str, service: str, attempt: str) -> int:
    """Trains as one rank; returns the exit code."""
    end_with_parent(int(parent_pid))
    log_to_stderr()
    gpus.show()
    job = read_job(Path(job_file))
    threads = job.ranker.cluster.threads_per_rank
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # While collectives wait for other ranks, each blocks a thread.
    tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))
    servers, (rank, ranks) = None, collectives.place()
    if job.ranker.num_parameter_servers:
        servers = find_servers(job, attempt, rank=rank, ranks=ranks)
        collectives.start_over(servers)
    _LOG.info("start rank=%d ranks=%d spec_digest=%s", rank, ranks, job.spec_digest)
    try:
        match job.ranker.transport(ranks_here=collectives.ranks_here()):
            case "shared_memory":
                collectives.share_memory(job.ranks_folder)
            case "tcp":
                collectives.connect(job.meeting_folder(attempt))
            case "horovod":
                collectives.start()
        place = placement.take(job.ranker, local_rank=collectives.local_rank())
        through = "device" if collectives.sums_on_device() else "host"
        _LOG.info("dense layers on=%s gradients summed through=%s", place.accelerator or "host", through)
        settings: dict[str, Any] = {"rank": rank, "ranks": ranks, "placement": place}
        # What names no device is on the host: TensorFlow would take the accelerator for whatever has a kernel there.
        with _monitored(job, rank) as metrics, place.host():
            if job.stream is not None:
                learn(job, metrics=metrics, **settings)
            else:
                train(job, service, attempt, servers=servers, metrics=metrics, **settings)
    except (UserError, NotFiniteError, tf.errors.OpError) as error:
        is_of_tensorflow = isinstance(error, tf.errors.OpError)
        told = full_store(error) or placement.full_device(error, job.ranker) if is_of_tensorflow else str(error)
        if told is None:
            raise
        job.mistake_file(rank).write_text(told)
        _LOG.error("%s", told)
        return ExitCode.MISTAKE
    collectives.stop()
    return ExitCode.DONE


@contextmanager
def _monitored(job: TrainJob, rank: int) -> Iterator[Metrics | None]:
    """Serves this rank's metrics while the body runs; None if metrics are off."""
    if job.monitoring is None:
        yield None
        return
    metrics = TrainingMetrics(job.ranker.tasks)
    target = job.monitoring.target(job.ranker.name, f"rank-{rank}")
    port = job.monitoring.rank_port(collectives.local_rank())
    endpoint = Endpoint(metrics.registry, host=job.monitoring.host, port=port, place=PLACE, target=target)
    try:
        yield metrics
    finally:
        endpoint.close()


if __name__ == "__main__":
    exit_code = main(*sys.argv[1:5])
    logging.shutdown()
    # Interpreter shutdown would abort threads that destroy iterators (std::terminate), see input.ending.
    os._exit(exit_code)
