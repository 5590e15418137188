"""A contestant's parameter server: its job file, its process, and the rank's side of it."""

import os
from collections.abc import Mapping
from pathlib import Path

from bench import workload
from bench.contestants import Contestant
from bench.processes import Process
from schemas.contracts.training_job import TrainJob, write_job
from schemas.spec import RankerSpec, digest
from trainer_module.launch.parameter_servers import SERVER_MODULE

JOB = "SANGAM_BENCH_JOB"
"""Variable of a rank with a parameter server: the job's file."""
ATTEMPT = "0"


def server_of(
    contestant: Contestant,
    folder: Path,
    *,
    ranks: int,
    environment: Mapping[str, str],
    cores: frozenset[int] = frozenset(),
) -> tuple[list[Process], dict[str, str]]:
    """Writes a job into a folder; returns its server, to be started on these cores, and its ranks' variables."""
    ranker = _ranker(contestant, ranks)
    job = TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        train_files=(),
        transform_graph="",
        model_dir="",
        output_dir=str(folder),
        final_checkpoint="",
        checkpoint_dir=str(folder),
        log_dir=str(folder),
    )
    file = folder / "job.json"
    write_job(file, job)
    command = [SERVER_MODULE, str(file), str(os.getpid()), "0", ATTEMPT]
    return [Process(command, environment, cores=cores)], {JOB: str(file)}


def _ranker(contestant: Contestant, ranks: int) -> RankerSpec:
    declared = workload.ranker(**contestant.training(), checkpoint={"every_steps": 1_000_000})
    cluster = declared.cluster.model_copy(update={"ranks": ranks, "parameter_servers": 1})
    return declared.model_copy(update={"cluster": cluster})
