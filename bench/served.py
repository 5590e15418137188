"""Parameter servers of benchmarks: the job file, the process of a server, and a contestant's server."""

import os
from collections.abc import Mapping
from pathlib import Path

from bench import workload
from bench.contestants import Contestant
from bench.jobs import job_in
from bench.processes import Process
from sangam.trainer_module.launch.parameter_servers import SERVER_MODULE

JOB = "SANGAM_BENCH_JOB"
"""Variable of a rank with a parameter server: the job's file."""
ATTEMPT = "0"


def server_process(
    job: Path, number: int, environment: Mapping[str, str], cores: frozenset[int] = frozenset()
) -> Process:
    """Returns one server of a job, to be started."""
    return Process([SERVER_MODULE, str(job), str(os.getpid()), str(number), ATTEMPT], environment, cores=cores)


def server_of(
    contestant: Contestant, folder: Path, *, ranks: int, environment: Mapping[str, str], cores: frozenset[int]
) -> tuple[Process, dict[str, str]]:
    """Writes a job into a folder; returns its server, to be started on these cores, and its ranks' variables."""
    declared = workload.ranker(**contestant.training(), checkpoint={"every_steps": 1_000_000})
    cluster = declared.cluster.model_copy(update={"ranks": ranks, "parameter_servers": 1})
    file, _ = job_in(folder, declared.model_copy(update={"cluster": cluster}))
    return server_process(file, 0, environment, cores), {JOB: str(file)}
