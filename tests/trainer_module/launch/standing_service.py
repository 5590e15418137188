"""A standing input service, each of its processes made by the command line, to be disturbed."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.trainer_module.launch import warm
from tests.trainer_module.launch.cluster_job import free_port
from tests.trainer_module.launch.launched_job import wait_until


class StandingService:
    """Starts a dispatcher and workers; ends those that are left.

    Attributes:
        address: of the dispatcher.
    """

    def __init__(self, folder: Path, *, lost_after_s: float = 2.0):
        """Notes how; nothing is started yet.

        Args:
            folder: for the work directory and the logs; made.
            lost_after_s: of the dispatcher.
        """
        folder.mkdir()
        self.address = f"localhost:{free_port()}"
        self._folder, self._lost_after_s = folder, lost_after_s
        self._started: list[tuple[warm.Process, Path]] = []

    def __enter__(self) -> "StandingService":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def dispatcher(self, *, is_cold: bool = False) -> warm.Process:
        """Starts the dispatcher, on the work directory of the one before; cold: as users do, not by a fork."""
        port = self.address.rpartition(":")[2]
        own = ["--work-dir", str(self._folder / "work"), "--port", port, "--lost-after-s", str(self._lost_after_s)]
        return self._start("dispatcher", own, is_cold=is_cold)

    def worker(self, *, is_cold: bool = False) -> warm.Process:
        """Starts a worker, at an address of its own."""
        return self._start("worker", ["--dispatcher", self.address, "--json"], is_cold=is_cold)

    def wait_until_serving(self) -> None:
        """Waits for all processes that run."""
        for process, log in self._started:
            if process.poll() is None:
                wait_until(lambda log=log: re.search('serving at|"address"', log.read_text()), 90, f"it serves: {log}")  # type: ignore[misc]

    def pids(self) -> list[int]:
        """Returns the processes that run."""
        return [process.pid for process, _ in self._started if process.poll() is None]

    def log(self, number: int) -> str:
        """Returns what a process, counted from the first one started, has said so far."""
        return re.sub(r"\s+", " ", self._started[number][1].read_text())

    def kill(self) -> None:
        """Kills all of it."""
        for process, _ in self._started:
            process.kill()
            process.wait()

    def _start(self, role: str, arguments: Sequence[str], *, is_cold: bool) -> warm.Process:
        log = self._folder / f"{len(self._started)}-{role}.log"
        words = ["sangam.pipelines.cli", "input-service", role, *arguments]
        process: warm.Process
        if is_cold:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            with log.open("wb") as file:
                command = [sys.executable, "-m", *words]
                process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        else:
            log.touch()
            process = warm.start(words, log)
        self._started.append((process, log))
        return process
