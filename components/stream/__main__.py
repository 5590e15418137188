"""The joiner's process: `python -m sangam.components.stream JOB_FILE PARENT_PID`; SIGTERM seals a last segment."""

from sangam.schemas.host.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on()  # Before the imports below.

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.joining_job import JoiningJob, read_joining_job
from sangam.schemas.errors import UserError
from sangam.schemas.host.environment import settle
from sangam.schemas.host.files import write_whole
from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.schemas.host.stop_signal import StopSignal

if TYPE_CHECKING:
    from sangam.components.stream.joiner import Joiner

_LOG = logging.getLogger("sangam.components.stream")
_POLL_S = 0.2
_STATUS_EVERY_S = 1.0


def main(job_file: str, parent_pid: str) -> int:
    """Joins until SIGTERM; returns the exit code."""
    settle()
    stopped = StopSignal(signal.SIGTERM)
    end_with_parent(int(parent_pid), signal.SIGTERM)
    log_to_stderr()
    try:
        job = read_joining_job(Path(job_file))
        _join(job, stopped)
    except UserError as error:
        _LOG.error("%s", error)
        return ExitCode.MISTAKE
    return ExitCode.DONE


def _join(job: JoiningJob, stopped: StopSignal) -> None:
    from sangam.components.stream.joiner import (
        Joiner,  # TensorFlow's import takes seconds; SIGTERM must be handled by then.
    )

    Path(job.segments).mkdir(parents=True, exist_ok=True)
    joiner = Joiner(job)
    due = 0.0
    while not stopped.is_set():
        has_worked = joiner.step()
        if time.monotonic() >= due:
            due = time.monotonic() + _STATUS_EVERY_S
            _tell(job, joiner)
        if not has_worked:
            stopped.wait(_POLL_S)
    joiner.close()
    while joiner.step(is_last=True):
        pass
    _tell(job, joiner)
    _LOG.info("stopped segment=%d", joiner.segment)


def _tell(job: JoiningJob, joiner: "Joiner") -> None:
    document = {
        "segment": joiner.segment,
        "waiting": joiner.num_waiting,
        "watermark": joiner.watermark,
        "counts": dict(joiner.counts),
        "source": dict(joiner.source()),
        "stalled_s": joiner.stalls.seconds,
        "stalled": joiner.stalls.reason,
        "written": time.time(),
    }
    write_whole(Path(job.status_file), json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    code = main(*sys.argv[1:3])
    logging.shutdown()
    os._exit(code)
