"""The tf.data service pool of a job on one machine: its own, or a standing one."""

import logging
import os
import time
from contextlib import ExitStack
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.launch.attempts import POLL_S
from sangam.trainer_module.launch.children import Child, end
from sangam.trainer_module.launch.deadline import Deadline
from sangam.trainer_module.launch.loopback import open_ports
from sangam.trainer_module.launch.lost import Losses
from sangam.trainer_module.launch.nursery import Nursery
from sangam.trainer_module.progress import say

_LOG = logging.getLogger(__name__)
_START_S = 120.0


class Pool:
    """A dispatcher and its workers, until the stack is closed.

    Attributes:
        service: host:port of the dispatcher; empty for a job without a pool.

    A standing service is neither started nor watched here; the ranks watch it, see `input.service_watch`.
    """

    def __init__(self, job: TrainJob, stack: ExitStack, deadline: Deadline, losses: Losses, nursery: Nursery):
        self._job, self._deadline, self._losses, self._nursery = job, deadline, losses, nursery
        self._children: dict[str, Child] = {}
        self._workers: dict[str, str] = {}
        cluster = job.ranker.cluster
        self.service = cluster.input_service.address if cluster.input_service else ""
        stack.callback(lambda: end(self._children.values()))
        if cluster.own_data_workers == 0:
            return
        names = [f"data-worker-{number}" for number in range(cluster.own_data_workers)]
        self._start("dispatcher", "dispatcher")
        # Together: each first loads TensorFlow, and a worker needs the dispatcher only after that.
        for name in names:
            self._start_worker(name)
        self.service = self._address("dispatcher")
        self._workers = {name: self._address(name) for name in names}
        if open_addresses := open_ports(child.pid for child in self._children.values()):
            warning = f"the data service listens to other machines too ({', '.join(open_addresses)}); see launch.log"
            _LOG.warning("%s. It has no authentication: close these ports by a firewall", warning)
            say(job.progress_file, f"warning: {warning}")

    def check(self) -> None:
        """Restarts ended workers.

        The ranks wait for a lost worker, and request its lost data again; see `input.train_input`.

        Raises:
            JobFailedError: the dispatcher has ended, or too many workers were lost.
        """
        for name, child in list(self._children.items()):
            if child.exit_code() is None:
                continue
            if name not in self._workers:
                raise child.failed()
            self._losses.replace(child.failed())
            # At its old address, which the ranks and the dispatcher know.
            self._start_worker(name, "--port", self._workers[name].rpartition(":")[2])

    def _start_worker(self, name: str, *more: str) -> None:
        self._start(name, "worker", "--dispatcher-file", str(self._address_file("dispatcher")), *more)

    def _start(self, name: str, role: str, *more: str) -> None:
        file = self._address_file(name)
        file.unlink(missing_ok=True)
        manners = ["--parent-pid", str(os.getpid()), "--address-file", str(file), *self._monitored(name)]
        arguments = ["sangam.trainer_module.launch.data_service", role, *manners, *more]
        self._children[name] = Child(self._job, name, arguments, nursery=self._nursery)

    def _monitored(self, name: str) -> list[str]:
        """Returns the metrics arguments of a pool process; empty if metrics are off."""
        told, cluster = self._job.monitoring, self._job.ranker.cluster
        if told is None:
            return []
        number = 0 if name == "dispatcher" else 1 + int(name.rpartition("-")[2])
        target = told.target(self._job.ranker.name, name)
        found = [] if target is None else ["--metrics-target", str(target.file), "--metrics-labels", target.labels_json]
        return ["--metrics-port", str(told.pool_port(cluster, number)), *found]

    def _address_file(self, name: str) -> Path:
        return Path(self._job.log_dir) / f"{name}.address"

    def _address(self, name: str) -> str:
        child, file = self._children[name], self._address_file(name)
        given_up = time.monotonic() + _START_S
        while not file.exists():
            self.check()
            if time.monotonic() > given_up:
                raise child.failed(f"did not start in {_START_S:.0f} s")
            self._deadline.check()
            time.sleep(POLL_S)
        return file.read_text()
