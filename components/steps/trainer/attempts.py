"""Runs the launcher of a training job, and again after a kill, from the last checkpoint.

The launcher replaces lost processes of its job. If it gives up, the job is not retried.
"""

import logging
import os
import signal
from pathlib import Path

from sangam.components.processes.group import run_group
from sangam.schemas.contracts.training_job import FAILURE_FILE, LOSSES_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.spec.cluster import MAX_RETRIES

_LOG = logging.getLogger(__name__)
_LAUNCHER = "sangam.trainer_module.launch.launcher"


class TrainingFailed(UserError):
    """The training job failed; the text contains the end of the failing process's log."""

    is_mistake = False


def run_to_the_end(job_file: Path, log_dir: Path, *, launcher: str = _LAUNCHER) -> None:
    """Trains and exports.

    Each launcher counts earlier killed launchers as losses, and gives up after `cluster.retries`.

    Args:
        job_file: job file of the job.
        log_dir: log folder of the job.
        launcher: module that runs a job file.

    Raises:
        TrainingFailed: if the launcher gave up, or was killed too often.
    """
    failure = log_dir / FAILURE_FILE
    (log_dir / LOSSES_FILE).unlink(missing_ok=True)
    # The limit is for a launcher that is killed before it can count.
    for restart in range(MAX_RETRIES + 1):
        failure.unlink(missing_ok=True)
        code = run_group([launcher, str(job_file), str(os.getpid())], log=log_dir / "launch.log")
        if code == 0:
            return
        killer = _killer(code)
        if failure.exists() or killer is None or restart == MAX_RETRIES:
            break
        _LOG.warning("event=launcher_killed by=%s restart=%d", killer, restart + 1)
    how = f"was ended by {killer}" if killer else f"ended with code {code}"
    reason = failure.read_text() if failure.exists() else f"training: the launcher {how}"
    raise TrainingFailed(f"{reason}\nAll logs: {log_dir}")


def _killer(code: int) -> str | None:
    """Returns the signal that ended a process, even if it caught it; None if no signal did."""
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
