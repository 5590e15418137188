"""The parameter servers on one machine, in one attempt of a job."""

import os
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.launch.children import Child, end
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.nursery import Nursery

SERVER_MODULE = "sangam.trainer_module.parameter_server"


class ParameterServers:
    """Watches server processes with consecutive numbers; none if the ranks hold the rows."""

    def __init__(
        self,
        job_file: Path,
        job: TrainJob,
        numbers: range,
        *,
        attempt: str,
        address: str = "127.0.0.1",
        module: str = SERVER_MODULE,
        nursery: Nursery | None = None,
    ):
        """Starts the servers.

        Args:
            job_file: path of the job file.
            job: its content.
            numbers: the servers' numbers on this machine.
            attempt: unique name of this attempt.
            address: address to serve on, at which ranks connect.
            module: module started for each server.
            nursery: see `Child`.
        """
        environment = {"OMP_NUM_THREADS": str(job.ranker.cluster.threads_per_rank)}
        self.children: list[Child] = []
        self._addresses = [job.server_file(number, attempt) for number in numbers]
        for number in numbers:
            arguments = [module, str(job_file), str(os.getpid()), str(number), attempt, "--host", address]
            name = f"parameter-server-{number}"
            self.children.append(Child(job, name, arguments, environment, nursery=nursery))

    def are_done(self) -> bool:
        """Returns False: servers serve until they are ended.

        Raises:
            JobFailedError: a server has ended. Its rows are lost: all processes resume from one checkpoint, because
                restoring it alone would mix rows of different ages.
        """
        if error := self._failed():
            raise error
        return False

    def end(self, *, grace_s: float = 5.0) -> JobFailedError | None:
        """Ends all servers.

        Returns:
            Their earlier failure, or None.
        """
        error = self._failed()
        end(self.children, grace_s)
        for file in self._addresses:
            file.unlink(missing_ok=True)
        return error

    def _failed(self) -> JobFailedError | None:
        return next((child.failed() for child in self.children if child.exit_code() is not None), None)
