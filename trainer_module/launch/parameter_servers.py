"""The parameter servers of one attempt on one machine, as their parent sees them."""

import os
from contextlib import ExitStack
from pathlib import Path

from schemas.contracts.training_job import TrainJob
from trainer_module.launch.children import Child, end

SERVER_MODULE = "trainer_module.parameter_server"


class ParameterServers:
    """Server processes, until the stack is closed; none where the ranks hold the rows."""

    def __init__(self, job_file: Path, job: TrainJob, attempt: str, stack: ExitStack):
        """Starts them.

        Args:
            job_file: path.
            job: its content.
            attempt: unique name of this attempt at the job.
            stack: ends them.
        """
        self._children: list[Child] = []
        stack.callback(lambda: end(self._children))
        environment = {"OMP_NUM_THREADS": str(job.ranker.cluster.threads_per_rank)}
        for number in range(job.ranker.num_parameter_servers):
            # Of an earlier launcher whose attempt had the same name.
            job.server_file(number, attempt).unlink(missing_ok=True)
            arguments = [SERVER_MODULE, str(job_file), str(os.getpid()), str(number), attempt]
            self._children.append(Child(job, f"parameter-server-{number}", arguments, environment))

    def check(self) -> None:
        """Looks after them.

        Raises:
            JobFailedError: one has ended. Its rows are gone: all processes resume from one checkpoint, as restoring it
                alone would mix rows of different ages.
        """
        for child in self._children:
            if child.exit_code() is not None:
                raise child.failed()
