"""Counts the processes that a job loses, and reports each."""

import logging
from pathlib import Path

from schemas.contracts.training_job import TrainJob
from trainer_module.checkpoint.folder import published, step_of
from trainer_module.launch.failures import JobFailedError
from trainer_module.progress import newest_lines, say

_LOG = logging.getLogger(__name__)


class GivenUpError(JobFailedError):
    """One process too many was lost."""

    @property
    def may_retry(self) -> bool:
        """No."""
        return False


class Losses:
    """Counts a job's lost processes of any kind; up to `cluster.retries` of them are restarted."""

    def __init__(self, job: TrainJob):
        self._job, self._allowed = job, job.ranker.cluster.retries
        self._count = 0

    def begin(self) -> None:
        """Reports where a launcher resumes that replaces another."""
        if self._job.progress_file.exists():
            # Killed, or stopped by a user who has started the same training again.
            says = f"the launcher was ended{self._at_step()}; restarting from {self._resumed_step()}"
            say(self._job.progress_file, says)

    def restart(self, error: JobFailedError) -> None:
        """Reports that all ranks are restarted.

        Args:
            error: why they ended.

        Raises:
            JobFailedError: too many processes were lost.
        """
        self._make_good(error, f"restarting from {self._resumed_step()}")

    def replace(self, error: JobFailedError) -> None:
        """Reports that one process is restarted while the ranks continue.

        Args:
            error: why it ended.

        Raises:
            JobFailedError: too many processes were lost.
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
        says = f"{error.brief}{self._at_step()}; {remedy} (attempt {self._count + 1} of {self._allowed + 1})"
        _LOG.warning("retry=%d of=%d after: %s\n%s", self._count, self._allowed, says, error)
        reason = str(error).splitlines()[0]
        say(self._job.progress_file, says, retry=self._count, of=self._allowed, reason=reason)

    def _at_step(self) -> str:
        steps = (line["step"] for line in newest_lines(self._job.progress_file) if isinstance(line.get("step"), int))
        step = next(steps, None)
        return "" if step is None else f" at step {step:,}"

    def _resumed_step(self) -> str:
        checkpoints = published(Path(self._job.checkpoint_dir))
        return f"step {step_of(checkpoints[-1]):,}" if checkpoints else "the beginning"
