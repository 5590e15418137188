"""Runs one training job to its end: attempts at the training until one succeeds, then the export."""

import itertools
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.trainer_module.checkpoint.manifest import MANIFEST, read_manifest
from sangam.trainer_module.launch.children import Child, end
from sangam.trainer_module.launch.deadline import Deadline
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.lost import Losses
from sangam.trainer_module.launch.nursery import Nursery
from sangam.trainer_module.launch.processes import Stopped
from sangam.trainer_module.progress import say

_LOG = logging.getLogger(__name__)
POLL_S = 0.05
EXPORT_MODULE = "sangam.trainer_module.export"

Train = Callable[[int, Deadline], None]
"""One attempt: (number from 0, deadline) -> trained; after a JobFailedError, no process of the attempt runs."""


def conclude(
    job_file: Path,
    job: TrainJob,
    losses: Losses,
    train: Train,
    *,
    leader: str,
    export_module: str = EXPORT_MODULE,
    nursery: Nursery | None = None,
) -> int:
    """Trains and exports; writes a failure to `failure.txt` in the log folder.

    Args:
        job_file: path of the job file.
        job: its content.
        losses: counts lost processes.
        train: runs one attempt.
        leader: role of this process: "launcher" or "coordinator".
        export_module: module started with the job file.
        nursery: see `Child`.

    Returns:
        The exit code.
    """
    failure_file = job.failure_file
    try:
        for directory in (job.log_dir, job.output_dir, job.checkpoint_dir, Path(job.final_checkpoint).parent):
            Path(directory).mkdir(parents=True, exist_ok=True)
        failure_file.unlink(missing_ok=True)
        losses.begin(leader)
        _run(job_file, job, losses, train, export_module, nursery)
    except (JobFailedError, UserError) as error:
        failure_file.write_text(str(error))
        losses.end()
        _LOG.error("%s", error)
        return ExitCode.MISTAKE if isinstance(error, UserError) or error.cause == "mistake" else ExitCode.FAILED
    except Stopped:
        _LOG.info("stopped by SIGTERM")
        return ExitCode.TERMINATED
    losses.end()
    return ExitCode.DONE


def _run(
    job_file: Path, job: TrainJob, losses: Losses, train: Train, export_module: str, nursery: Nursery | None
) -> None:
    """Trains and exports; resumes from the last checkpoint if a process is lost and `losses` allows it."""
    deadline = Deadline(job)
    for attempt in itertools.count():
        try:
            if not is_trained(job):
                train(attempt, deadline)
            if job.model_dir and not job.export_file.exists():
                say(job.progress_file, "exporting the model")
                _export(job_file, job, export_module, deadline, nursery)
            return
        except JobFailedError as error:
            losses.restart(error)


def is_trained(job: TrainJob) -> bool:
    """Returns whether only the export is left."""
    final = Path(job.final_checkpoint)
    return job.report_file.exists() and (final / MANIFEST).exists() and read_manifest(final).job_digest == job.digest


def _export(job_file: Path, job: TrainJob, module: str, deadline: Deadline, nursery: Nursery | None) -> None:
    export = Child(job, "export", [module, str(job_file), str(os.getpid())], nursery=nursery)
    try:
        while (code := export.exit_code()) is None:
            deadline.check()
            time.sleep(POLL_S)
        if code:
            raise export.failed()
    finally:
        end([export])
