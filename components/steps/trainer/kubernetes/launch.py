"""Runs a job file as a training job in pods, for the trainer's executor."""

import asyncio
import hashlib
import logging
import os
import signal
import threading
from pathlib import Path

from sangam.components.steps.trainer.kubernetes.connection import connect
from sangam.components.steps.trainer.kubernetes.lifecycle import run_job
from sangam.components.steps.trainer.kubernetes.run import TrainingRun
from sangam.components.steps.trainer.kubernetes.timing import Timing
from sangam.schemas.contracts.training_job import TrainJob, write_job
from sangam.schemas.errors import UserError
from sangam.schemas.spec.cluster import Launch

_LOG = logging.getLogger(__name__)


def refuse_unshared(launch: Launch, job: TrainJob) -> None:
    """Requires that all pods can read the files that the job reads, and write those that it writes.

    Args:
        launch: launch with the volumes of the spec.
        job: job of the pods.

    Raises:
        UserError: for the first path that they cannot access.
    """
    all_roots = [volume.path for volume in launch.volumes.values()]
    writable = [volume.path for volume in launch.volumes.values() if not volume.read_only]
    read = [job.transform_graph, *filter(None, [job.base_checkpoint])]
    read += [*job.train_files, *job.validation_files, *job.check_files]
    written = [job.model_dir, job.output_dir, job.final_checkpoint, job.checkpoint_dir, job.log_dir]
    for paths, roots, what in ((read, all_roots, ""), (written, writable, "writable ")):
        for path in paths:
            if not any(Path(path).is_relative_to(root) for root in roots):
                raise UserError(
                    f"trainer: {path} is on no {what}volume of the job's pods (got {what}volumes at "
                    f"{', '.join(roots) or 'no path'}); the pipeline root must be on a writable volume of "
                    "cluster.volumes"
                )


def write_shared_job(log_dir: Path, job: TrainJob) -> Path:
    """Writes the job file under a unique name: pods of an earlier try may still read theirs."""
    path = log_dir / f"job-{hashlib.sha256(job.model_dump_json().encode()).hexdigest()[:10]}.json"
    write_job(path, job)
    return path


def run_pods(run: TrainingRun, log_dir: Path, timing: Timing = Timing()) -> None:  # noqa: B008, immutable
    """Runs a job on the cluster of this process to its end, and removes all of its objects.

    SIGTERM and SIGINT end it: the created objects are removed, and then the signal takes its usual effect.

    Raises:
        UserError: it failed; TrainingFailed where the job did.
    """
    received: list[int] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            if not received:
                received.append(number)
                _LOG.warning("event=stopped signal=%s run=%s", signal.Signals(number).name, run.name)
                task.cancel()

        if is_main:
            for number in previous:
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        async with connect(timing) as api:
            await run_job(api, run, log_dir)

    is_main = threading.current_thread() is threading.main_thread()
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        if not received:
            raise
    finally:
        if is_main:
            for number, handler in previous.items():
                # None: a handler not set by Python, which cannot be restored.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if received:
        os.kill(os.getpid(), received[0])
        # The handler may run later, or let the process continue: raise, since the step is incomplete.
        name = signal.Signals(received[0]).name
        raise UserError(f"training: was stopped (got {name}); run the step again: it resumes")
