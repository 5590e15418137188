"""The training of one lineage: its job, and its program, which is kept running."""

from pathlib import Path

from sangam.pipelines.online.processes import Kept
from sangam.schemas.contracts.training_job import JOB_FILE, TrainJob, write_job

_LAUNCHER = "sangam.trainer_module.launch.launcher"


class Training:
    """A training that runs until it is asked to stop.

    Attributes:
        job: its job.
    """

    def __init__(self, job: TrainJob, name: str):
        """Writes the job file, and starts the training.

        Args:
            job: the job.
            name: display name.
        """
        self.job = job
        folder = Path(job.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        job.stop_file.unlink(missing_ok=True)
        write_job(folder / JOB_FILE, job)
        arguments = [_LAUNCHER, str(folder / JOB_FILE)]
        self._program = Kept(name, arguments, folder / "launch.log", reason=self._reason)
        self._program.start()

    def check(self) -> str:
        """Starts the training again if it has ended; returns a line for the user, or "".

        Raises:
            UserError: a restart cannot help.
        """
        return self._program.check()

    def ask_to_stop(self) -> None:
        """Has the training publish its last changes, write a checkpoint, and end."""
        self.job.stop_file.touch()

    def wait_for_end(self, seconds: float) -> None:
        """Waits for its own end."""
        self._program.wait_for_end(seconds)

    def end(self) -> None:
        """Ends it if it runs."""
        self._program.end()

    def _reason(self) -> str:
        file = self.job.failure_file
        return file.read_text() if file.exists() else ""
