"""The way from a job file to a training job of several pods, for the trainer's executor."""

import asyncio
import hashlib
import json
import logging
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.steps.trainer.kubernetes.connection import connect
from components.steps.trainer.kubernetes.lifecycle import carry_out
from components.steps.trainer.kubernetes.run import TrainingRun
from components.steps.trainer.kubernetes.timing import Timing
from schemas.errors import UserError
from schemas.files import write_whole
from schemas.spec.cluster import Launch

_LOG = logging.getLogger(__name__)
_PATHS = ("transform_graph", "base_checkpoint")
_LISTS = ("train_files", "validation_files", "check_files")
_WRITTEN = ("model_dir", "output_dir", "final_checkpoint", "checkpoint_dir", "log_dir")


def refuse_unshared(launch: Launch, job: Mapping[str, Any]) -> None:
    """Checks that all pods see the job's files, and may write where it writes.

    Args:
        launch: with the declared volumes.
        job: fields of the job file.

    Raises:
        UserError: naming the first path that they do not.
    """
    everywhere = [volume.path for volume in launch.volumes.values()]
    writable = [volume.path for volume in launch.volumes.values() if not volume.read_only]
    read = [job[name] for name in _PATHS if job[name]] + [path for name in _LISTS for path in job[name]]
    for paths, roots, what in ((read, everywhere, ""), ([job[name] for name in _WRITTEN], writable, "writable ")):
        for path in paths:
            if not any(Path(path).is_relative_to(root) for root in roots):
                raise UserError(
                    f"trainer: the pods of a training job would not see {path} (got {what}volumes at "
                    f"{', '.join(roots) or 'no path'}); have the pipeline root lie on one of cluster.volumes that "
                    "can be written"
                )


def write_job(log_dir: Path, job: Mapping[str, Any]) -> Path:
    """Writes the job file under a name of its own: pods of another try may still read theirs."""
    content = json.dumps(job, indent=2)
    path = log_dir / f"job-{hashlib.sha256(content.encode()).hexdigest()[:10]}.json"
    write_whole(path, content)
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
