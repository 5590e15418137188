"""Counts and reports the lost processes of a job."""

import contextlib
import logging
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.host.files import write_whole
from sangam.trainer_module.checkpoint.folder import published, step_of
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.progress import newest_lines, say

_LOG = logging.getLogger(__name__)


class GivenUpError(JobFailedError):
    """The number of lost processes exceeds the limit."""

    @property
    def may_retry(self) -> bool:
        """False."""
        return False


class Losses:
    """Counts the lost processes of a job; the only place that enforces `cluster.retries`.

    While the job runs, the count is in a file: a new launcher or coordinator continues it and adds its predecessor.
    """

    def __init__(self, job: TrainJob):
        self._job, self._allowed = job, job.ranker.cluster.retries
        self._count = 0

    def begin(self, leader: str) -> None:
        """Counts the previous launcher or coordinator as lost, if it did not end by itself.

        Not for online training: its supervisor already backs off between restarts.

        Args:
            leader: "launcher" or "coordinator".

        Raises:
            JobFailedError: the loss exceeds the limit.
        """
        file, resumes = self._job.losses_file, f"restarting from {self._resumed_step()}"
        if file.exists() and self._job.stream is None:
            self._count = int(file.read_text())
            self._make_good(JobFailedError("lost", f"training: the {leader} was ended"), resumes)
        else:
            self._keep()
            if self._job.progress_file.exists():
                # The user stopped it, and has started the same training again.
                say(self._job.progress_file, f"the {leader} was ended{self._at_step()}; {resumes}")

    def end(self) -> None:
        """Removes the count after the job has ended by itself."""
        self._job.losses_file.unlink(missing_ok=True)

    def restart(self, error: JobFailedError) -> None:
        """Reports that all ranks are restarted.

        Args:
            error: the error that ended them.

        Raises:
            JobFailedError: the loss exceeds the limit.
        """
        self._make_good(error, f"restarting from {self._resumed_step()}")

    def replace(self, error: JobFailedError) -> None:
        """Reports that one process is restarted while the ranks continue.

        Args:
            error: the error that ended it.

        Raises:
            JobFailedError: the loss exceeds the limit.
        """
        self._make_good(error, "starting it again, the ranks go on")

    def _make_good(self, error: JobFailedError, remedy: str) -> None:
        if not error.may_retry or self._allowed == 0:
            raise error
        if self._count == self._allowed:
            raise GivenUpError(
                error.cause,
                f"training: {error.brief}{self._at_step()}, after {self._count} lost processes, as many as "
                f"cluster.retries allows; the same command resumes from {self._resumed_step()}\n{error}",
            ) from error
        self._count += 1
        self._keep()
        says = f"{error.brief}{self._at_step()}; {remedy} (attempt {self._count + 1} of {self._allowed + 1})"
        _LOG.warning("retry=%d of=%d after: %s\n%s", self._count, self._allowed, says, error)
        reason = str(error).splitlines()[0]
        say(self._job.progress_file, says, retry=self._count, of=self._allowed, reason=reason)

    def _keep(self) -> None:
        # Training does not need this file: a full disk must not end it.
        with contextlib.suppress(OSError):
            write_whole(self._job.losses_file, str(self._count))

    def _at_step(self) -> str:
        steps = (line["step"] for line in newest_lines(self._job.progress_file) if isinstance(line.get("step"), int))
        step = next(steps, None)
        return "" if step is None else f" at step {step:,}"

    def _resumed_step(self) -> str:
        checkpoints = published(Path(self._job.checkpoint_dir))
        return f"step {step_of(checkpoints[-1]):,}" if checkpoints else "the beginning"
