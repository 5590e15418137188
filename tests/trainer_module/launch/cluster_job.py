"""A training job of several hosts, each with processes as in pods of their own, to be disturbed."""

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.trainer_module.launch import warm

STAND_INS = "tests.trainer_module.launch.fake_hosts"


def free_port() -> int:
    """Returns a port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def processes_of(job_file: Path) -> list[psutil.Process]:
    """Returns the living processes that were started with this job file."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(job_file) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


class ClusterJob:
    """Starts the processes of one job.

    Attributes:
        port: of the coordinator.
    """

    def __init__(
        self,
        job_file: Path,
        *,
        hosts: int,
        servers: int = 0,
        places: Sequence["Place"] = (),
        lost_after_s: float = 6.0,
        coordinator: Sequence[str] = (STAND_INS, "coordinator"),
        host: Sequence[str] = (STAND_INS, "host"),
        service: str = "",
    ):
        """Notes how; nothing is started yet.

        Args:
            job_file: of the job.
            hosts: how many have ranks.
            servers: how many behind them have a parameter server.
            places: where the coordinator and host 0, host 1, ... are; none: all on the loopback interface.
            lost_after_s: for the coordinator.
            coordinator: module and its first arguments.
            host: the same of a host.
            service: for the coordinator.
        """
        self.job_file, self.port = job_file, free_port()
        self._hosts, self._lost_after_s, self._service = hosts, lost_after_s, service
        self._places = places or [Place()] * (hosts + servers)
        self._coordinator, self._host = coordinator, host
        self._started: list[warm.Process] = []

    def __enter__(self) -> "ClusterJob":
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._started, *processes_of(self.job_file)]:
            process.kill()
        for started in self._started:
            started.wait()

    def start(self, place: "Place", name: str, *arguments: str) -> warm.Process:
        """Runs `python -m ...` somewhere, by a fork where the place has no program of its own; it has its own log."""
        log = self.job_file.parent / f"{name}.log"
        process: warm.Process
        if place.prefix:
            with log.open("ab") as output:
                command = [*place.prefix, sys.executable, "-m", *arguments]
                process = subprocess.Popen(command, stdout=output, stderr=output)
        else:
            process = warm.start(arguments, log, {warm.NETWORK: place.network} if place.network else None)
        self._started.append(process)
        return process

    def coordinator(self) -> warm.Process:
        """Starts the coordinator."""
        options = {
            "--hosts": self._hosts,
            "--port": self.port,
            "--service": self._service,
            "--bind": self._places[0].address,
            "--lost-after-s": self._lost_after_s,
        }
        given = [str(part) for option in options.items() for part in option]
        return self.start(self._places[0], "coordinator", *self._coordinator, str(self.job_file), *given)

    def host(self, index: int, *, patience_s: float = 600.0, interface: str = "") -> warm.Process:
        """Starts a host; the indices of those with parameter servers follow those with ranks."""
        after = self._hosts if index >= self._hosts else 0
        options = {
            "--coordinator": f"{self._places[0].address}:{self.port}",
            "--index": index - after,
            "--after": after,
            "--interface": interface or self._places[index].interface,
            "--patience-s": patience_s,
        }
        given = [str(part) for option in options.items() for part in option]
        return self.start(self._places[index], f"host-{index}", *self._host, str(self.job_file), *given)

    def log(self, name: str = "coordinator") -> str:
        """Returns what a process has said so far."""
        return (self.job_file.parent / f"{name}.log").read_text()

    def rank(self, rank: int) -> psutil.Process | None:
        """Returns the process of a rank, if it runs."""
        for process in processes_of(self.job_file):
            try:
                if process.environ().get("HOROVOD_RANK") == str(rank):
                    return process
            except psutil.NoSuchProcess:
                continue
        return None

    def server(self, number: int) -> psutil.Process | None:
        """Returns the process of a parameter server, if it runs."""
        for process in processes_of(self.job_file):
            try:
                words = process.cmdline()
            except psutil.NoSuchProcess:
                continue
            if "--host" in words and words[words.index("--host") - 2] == str(number):
                return process
        return None


class Place:
    """Where processes run: on this machine's loopback interface, or in a network of their own.

    Attributes:
        prefix: program that starts a command there; none: it is not needed.
        address: of processes there.
        interface: with this address.
        network: name of its network namespace; empty: this machine's own.
    """

    def __init__(
        self, prefix: Sequence[str] = (), address: str = "127.0.0.1", interface: str = "lo", network: str = ""
    ):
        self.prefix, self.address, self.interface, self.network = prefix, address, interface, network
