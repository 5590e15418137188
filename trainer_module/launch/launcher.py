"""Runs one training job on this machine: `python -m sangam.trainer_module.launch.launcher JOB_FILE PARENT_PID`.

Starts the tf.data service pool and the ranks, watches them, then exports. All are in this process's group, so that one
signal to the group ends them all. A lost data worker is restarted; when another process is lost, all are restarted from
the last checkpoint. The final failure is written to `failure.txt` in the log folder. On several machines,
`sangam.trainer_module.launch.coordinator` and `sangam.trainer_module.launch.host` do the same.
"""

import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sangam.schemas.contracts.monitoring import withdraw_all
from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.schemas.derived.plan import refuse_unfit
from sangam.schemas.host.environment import clean, settle
from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import UTF8_OUTPUT, log_to_stderr
from sangam.trainer_module.launch.attempts import POLL_S, conclude
from sangam.trainer_module.launch.children import environment_of_all
from sangam.trainer_module.launch.deadline import Deadline
from sangam.trainer_module.launch.loopback import keep_children_on_loopback
from sangam.trainer_module.launch.lost import Losses
from sangam.trainer_module.launch.machine import refuse_unfit_machine
from sangam.trainer_module.launch.memory import available_bytes
from sangam.trainer_module.launch.nursery import Nursery
from sangam.trainer_module.launch.parameter_servers import ParameterServers
from sangam.trainer_module.launch.pool import Pool
from sangam.trainer_module.launch.processes import stop_on_sigterm
from sangam.trainer_module.launch.rank_group import RankGroup, place_here
from sangam.trainer_module.launch.rendezvous import Rendezvous
from sangam.trainer_module.monitoring.endpoint import refuse_ports_in_use

_LOG = logging.getLogger("sangam.trainer_module.launch.launcher")


@contextmanager
def _places(job: TrainJob) -> Iterator[Callable[[int], Mapping[str, str]]]:
    """Yields a function that returns a rank's variables for its place among the ranks."""
    ranks = job.ranker.cluster.ranks
    if job.ranker.transport(ranks_here=ranks) != "horovod":
        yield lambda rank: place_here(rank, ranks)
        return
    with Rendezvous(ranks) as rendezvous:
        yield rendezvous.environment


def _train(job_file: Path, job: TrainJob, losses: Losses, attempt: str, deadline: Deadline, nursery: Nursery) -> None:
    cluster = job.ranker.cluster
    of_pool = 1 + cluster.own_data_workers if cluster.own_data_workers else 0
    processes = cluster.ranks + job.ranker.num_parameter_servers + of_pool
    refuse_unfit_machine(job, ranks=cluster.ranks, processes=processes)
    refuse_unfit(job.ranker, available_bytes())
    if job.monitoring is not None:
        ports = job.monitoring.ports(job.ranker.cluster, job.ranker.num_parameter_servers)
        refuse_ports_in_use(job.monitoring.host, ports)
    with ExitStack() as stack:
        places = stack.enter_context(_places(job))
        numbers = range(job.ranker.num_parameter_servers)
        servers = ParameterServers(job_file, job, numbers, attempt=attempt, nursery=nursery)
        stack.callback(servers.end)
        pool = Pool(job, stack, deadline, losses, nursery)
        group = RankGroup(
            job_file,
            job,
            range(cluster.ranks),
            places,
            parent_pid=os.getpid(),
            service=pool.service,
            attempt=attempt,
            nursery=nursery,
        )
        stack.callback(group.end)
        while not group.are_done():
            servers.are_done()
            pool.check()
            deadline.check()
            time.sleep(POLL_S)


def main(job_file: str, parent_pid: str) -> int:
    """Runs a job file; returns the exit code."""
    settle()
    clean(os.environ)
    os.environ.update(UTF8_OUTPUT)
    stop_on_sigterm()
    end_with_parent(int(parent_pid), signal.SIGTERM)
    log_to_stderr()
    path = Path(job_file)
    job = read_job(path)
    keep_children_on_loopback()
    _LOG.info("start spec_digest=%s", job.spec_digest)
    losses = Losses(job)
    # A standing pool outlives this process and serves other jobs: attempt names must be unique.
    incarnation = uuid.uuid4().hex[:12]
    _withdraw_targets(job)  # From a killed launcher.
    # Libraries read it when loaded, so the nursery needs it; a process that is not forked sets its own.
    threads = {"OMP_NUM_THREADS": str(job.ranker.cluster.threads_per_rank)}
    try:
        with Nursery(Path(job.log_dir) / "nursery.log", {**environment_of_all(), **threads}) as nursery:
            return conclude(
                path,
                job,
                losses,
                lambda attempt, deadline: _train(path, job, losses, f"{incarnation}-{attempt}", deadline, nursery),
                leader="launcher",
                nursery=nursery,
            )
    finally:
        _withdraw_targets(job)


def _withdraw_targets(job: TrainJob) -> None:
    """Removes the Prometheus targets of the job's processes."""
    if job.monitoring is not None and job.monitoring.targets:
        withdraw_all(Path(job.monitoring.targets), job.monitoring.job, job.ranker.name)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
