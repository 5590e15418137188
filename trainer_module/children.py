"""The processes of a training job, as their launcher sees them: how they end, and whether they get on."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainer_module.job import TrainJob
from trainer_module.processes import tail

_LOG = logging.getLogger("trainer_module.launch")
_GRACE_S = 5.0


class JobFailedError(RuntimeError):
    """The job cannot go on; the text says which process, why, and the end of its log.

    Attributes:
        may_retry: whether it could go well from the last checkpoint: a process was lost, nobody made a mistake.
    """

    def __init__(self, message: str, *, may_retry: bool = False):
        super().__init__(message)
        self.may_retry = may_retry


class Child:
    """A process of the job, with its log."""

    def __init__(
        self, job: TrainJob, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ):
        self.name, self.started = name, time.time()
        self.log = Path(job.log_dir) / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        _LOG.info("started name=%s pid=%d", name, self._process.pid)

    def exit_code(self) -> int | None:
        """Returns how the process ended, None while it runs; negative: by that signal."""
        return self._process.poll()

    def stop(self) -> None:
        """Ends the process: SIGTERM, and SIGKILL for one that does not listen."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def failure(self) -> JobFailedError:
        """Returns the error for a process that has ended when it should not have, or badly."""
        code = self.exit_code()
        how = f"was ended by {signal.Signals(-code).name}" if code and code < 0 else f"ended with code {code}"
        # The export has nothing to go on from, and does the same again; it may still have been killed.
        may_retry = self.name != "export" or (code or 0) < 0
        return JobFailedError(
            f"training: {self.name} {how}; the end of {self.log}:\n{tail(self.log)}", may_retry=may_retry
        )


class Watch:
    """Deadline and heartbeats of a job."""

    def __init__(self, job: TrainJob):
        self._job = job
        self._cluster = job.ranker.cluster
        self._started = time.monotonic()

    def check_deadline(self) -> None:
        """Raises when the job has taken too long."""
        if time.monotonic() - self._started > self._cluster.deadline_s:
            raise JobFailedError(
                f"training: not done after {self._cluster.deadline_s} s; raise cluster.deadline_s, or train on less"
            )

    def check_heartbeats(self, ranks: Sequence[Child]) -> None:
        """Raises when a rank has not made progress for too long."""
        for number, child in enumerate(ranks):
            if child.exit_code() is not None:
                continue
            beat = self._job.heartbeat_file(number)
            last = max(child.started, beat.stat().st_mtime if beat.exists() else 0.0)
            silent_s = time.time() - last
            if silent_s > self._cluster.heartbeat_timeout_s:
                raise JobFailedError(
                    f"training: {child.name} has made no progress for {silent_s:.0f} s (cluster.heartbeat_timeout_s is "
                    f"{self._cluster.heartbeat_timeout_s}); the end of {child.log}:\n{tail(child.log)}",
                    may_retry=True,
                )
