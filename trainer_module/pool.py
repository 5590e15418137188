"""The tf.data service pool of a job on one machine."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

from trainer_module.attempts import POLL_S
from trainer_module.children import Child, end
from trainer_module.deadline import Deadline
from trainer_module.job import TrainJob

_START_S = 120.0


class Pool:
    """A dispatcher and its workers, until the stack is closed.

    Attributes:
        service: host:port of the dispatcher; empty where the job wants no pool.
    """

    def __init__(self, job: TrainJob, stack: ExitStack, deadline: Deadline):
        self._job, self._stack, self._deadline = job, stack, deadline
        self._children: list[Child] = []
        self.service = ""
        if job.ranker.cluster.data_workers == 0:
            return
        self.service = self._address(*self._start("dispatcher", "dispatcher"))
        names = [f"data-worker-{number}" for number in range(job.ranker.cluster.data_workers)]
        for worker in [self._start(name, "worker", "--dispatcher", self.service) for name in names]:
            self._address(*worker)

    def check(self) -> None:
        """Raises when a process of the pool has ended: it must outlive the ranks."""
        for child in self._children:
            if child.exit_code() is not None:
                raise child.failed()

    def _start(self, name: str, role: str, *more: str) -> tuple[Child, Path]:
        address = Path(self._job.log_dir) / f"{name}.address"
        address.unlink(missing_ok=True)
        manners = ["--parent-pid", str(os.getpid()), "--address-file", str(address)]
        child = Child(self._job, name, ["trainer_module.data_service", role, *manners, *more])
        self._stack.callback(end, [child])
        self._children.append(child)
        return child, address

    def _address(self, child: Child, file: Path) -> str:
        given_up = time.monotonic() + _START_S
        while not file.exists():
            self.check()
            if time.monotonic() > given_up:
                raise child.failed(f"did not start in {_START_S:.0f} s")
            self._deadline.check()
            time.sleep(POLL_S)
        return file.read_text()
