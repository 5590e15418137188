"""The way from a job file to a training job of several pods, for the trainer's executor."""

import asyncio
import hashlib
import logging
import os
import signal
import threading
from pathlib import Path

from components.steps.trainer.kubernetes.connection import connect
from components.steps.trainer.kubernetes.lifecycle import carry_out
from components.steps.trainer.kubernetes.run import TrainingRun
from components.steps.trainer.kubernetes.timing import Timing
from schemas.contracts.training_job import TrainJob, write_job
from schemas.errors import UserError
from schemas.spec.cluster import Launch

_LOG = logging.getLogger(__name__)


def refuse_unshared(launch: Launch, job: TrainJob) -> None:
    """Checks that all pods see the job's files, and may write where it writes.

    Args:
        launch: with the declared volumes.
        job: of the pods.

    Raises:
        UserError: naming the first path that they do not.
    """
    everywhere = [volume.path for volume in launch.volumes.values()]
    writable = [volume.path for volume in launch.volumes.values() if not volume.read_only]
    read = [job.transform_graph, *filter(None, [job.base_checkpoint])]
    read += [*job.train_files, *job.validation_files, *job.check_files]
    written = [job.model_dir, job.output_dir, job.final_checkpoint, job.checkpoint_dir, job.log_dir]
    for paths, roots, what in ((read, everywhere, ""), (written, writable, "writable ")):
        for path in paths:
            if not any(Path(path).is_relative_to(root) for root in roots):
                raise UserError(
                    f"trainer: the pods of a training job would not see {path} (got {what}volumes at "
                    f"{', '.join(roots) or 'no path'}); have the pipeline root lie on one of cluster.volumes that "
                    "can be written"
                )


def write_shared_job(log_dir: Path, job: TrainJob) -> Path:
    """Writes the job file under a name of its own: pods of another try may still read theirs."""
    path = log_dir / f"job-{hashlib.sha256(job.model_dump_json().encode()).hexdigest()[:10]}.json"
    write_job(path, job)
    return path


def run_pods(run: TrainingRun, log_dir: Path, timing: Timing = Timing()) -> None:  # noqa: B008, immutable
    """Runs a job on the cluster of this process to its end, and leaves nothing of it there.

    SIGTERM and SIGINT end it: what was created is removed, and then the signal does what it would have done.

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
            await carry_out(api, run, log_dir)

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
                # None is one that was not set by Python, and cannot be set again.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if received:
        os.kill(os.getpid(), received[0])
        # Its handler may run a moment later, or let the process go on: this step has not been done.
        name = signal.Signals(received[0]).name
        raise UserError(f"training: was stopped (got {name}); run the step again, it goes on from there")
