"""Runs the launcher of a training job, again if something has killed it: it goes on from the last checkpoint.

Within a job the launcher itself replaces lost processes. A job that it gives up on is not tried again.
"""

import logging
import os
import signal
from pathlib import Path

from components.processes.group import run_group
from schemas.contracts.training_job import FAILURE_FILE
from schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_LAUNCHER = "trainer_module.launch.launcher"


class TrainingFailed(UserError):
    """The training job failed; the text holds the end of the failing process's log."""

    is_mistake = False


def run_to_the_end(job_file: Path, log_dir: Path, *, retries: int, launcher: str = _LAUNCHER) -> None:
    """Trains and exports.

    Args:
        job_file: of the job.
        log_dir: of the job.
        retries: how many times a killed launcher is started again.
        launcher: module that runs a job file.

    Raises:
        TrainingFailed: when the launcher gave up, or was killed once too often.
    """
    failure = log_dir / FAILURE_FILE
    for attempt in range(retries + 1):
        failure.unlink(missing_ok=True)
        code = run_group([launcher, str(job_file), str(os.getpid())], log=log_dir / "launch.log")
        if code == 0:
            return
        killer = _killer(code)
        if failure.exists() or killer is None or attempt == retries:
            break
        _LOG.warning("event=launcher_killed by=%s attempt=%d retries=%d", killer, attempt + 1, retries)
    how = f"was ended by {killer}" if killer else f"ended with code {code}"
    reason = failure.read_text() if failure.exists() else f"training: the launcher {how}"
    raise TrainingFailed(f"{reason}\nAll logs: {log_dir}")


def _killer(code: int) -> str | None:
    """Returns the signal that ended a process, also one that it caught; None if it ended by itself."""
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
