"""What a training needs of its machine: checked by its launcher or host before it starts anything, and by `sangam
doctor`."""

import math
import os
import queue
import resource
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.launch.memory import available_bytes

NUM_PORTS = 8
MIN_SHM_MIB = 16
_SHM = Path("/dev/shm")
_ANSWER_S = 1.0
_HERE = "localhost"
_MIB = 2**20
_LIBRARIES_MIB, _PROCESS_MIB = 512, 128
"""TensorFlow, which forked processes share, and each process's own memory before it has rows."""
_FILES, _PROCESS_FILES = 64, 16
"""Descriptors of a process, and of its connections to each other process."""


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: name of the check.
        is_ok: whether the check passed.
        detail: observation of the check.
        fix: remedy; empty if the check passed.
    """

    name: str
    is_ok: bool
    detail: str
    fix: str = ""


def examine(*, processes: int, names: Sequence[str] = (), memory_mib: float | None = None) -> Iterator[Finding]:
    """Runs every check and yields each finding as soon as it is known; all take about a second at most.

    Args:
        processes: number of processes that a training starts here.
        names: names of this machine to resolve, besides localhost.
        memory_mib: available memory that is needed; None: that of the processes before they have rows.
    """
    yield resolution((_HERE, *names))
    yield connection()
    yield shared_memory()
    yield memory(_LIBRARIES_MIB + _PROCESS_MIB * processes if memory_mib is None else memory_mib)
    yield descriptors(_FILES + _PROCESS_FILES * processes)


def refuse_unfit_machine(job: TrainJob, *, ranks: int, processes: int) -> None:
    """Refuses a machine on which a job's processes could not start, or could not reach each other.

    Raises this process's limit of open files as far as it may.

    Args:
        job: the training job.
        ranks: number of its ranks here.
        processes: number of its processes here.

    Raises:
        UserError: with the first reason.
    """
    refuse_missing_horovod(job.ranker, ranks_here=ranks)
    # Horovod resolves the machine's name for the connections of its process sets, see `network`.
    names = [socket.gethostname()] if job.ranker.transport(ranks_here=ranks) == "horovod" else []
    for finding in examine(processes=processes, names=names):
        if not finding.is_ok:
            raise UserError(f"training: this machine cannot run it: {finding.name}: {finding.detail}; {finding.fix}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def refuse_missing_horovod(ranker: RankerSpec, *, ranks_here: int) -> None:
    """Refuses ranks that communicate over Horovod where it is not installed.

    Raises:
        UserError: with what trains without it.
    """
    if ranker.transport(ranks_here=ranks_here) == "horovod" and find_spec("horovod") is None:
        raise UserError(
            f"training.sync.transport: Horovod is not installed (got horovod, and {ranker.cluster.ranks} ranks); run "
            "`sangam setup`, which compiles it, or take auto"
        )


def resolution(names: Sequence[str]) -> Finding:
    """Checks that names of this machine have addresses: without a line in /etc/hosts, a look-up may take minutes."""
    for name in names:
        answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        # The look-up itself has no time limit.
        threading.Thread(target=lambda name=name, to=answers: to.put(_look_up(name)), daemon=True).start()
        try:
            address, got = answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            address, got = "", f"no answer within {_ANSWER_S:g} s"
        if not address or (name == _HERE and not address.startswith("127.")):
            wanted = "127.0.0.1" if name == _HERE else "its address"
            fix = f"give it {wanted} in /etc/hosts"
            return Finding("names", False, f"cannot resolve {name} (got {address or got})", fix)
    return Finding("names", True, f"{', '.join(names)} can be resolved")


def _look_up(name: str) -> tuple[str, str]:
    """Returns a name's address, or why there is none."""
    try:
        return socket.gethostbyname(name), ""
    except OSError as error:
        return "", _reason(error)


def connection() -> Finding:
    """Checks that processes can listen on loopback and connect to themselves there, and that ports are free."""
    fix = "`ip link set lo up`; a container or sandbox needs a loopback device, and no firewall before it"
    try:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(NUM_PORTS)]
    except OSError as error:
        return Finding("loopback", False, f"cannot listen on 127.0.0.1 (got {_reason(error)})", fix)
    try:
        with socket.create_connection(servers[0].getsockname(), timeout=_ANSWER_S) as client:
            servers[0].settimeout(_ANSWER_S)
            accepted, _ = servers[0].accept()
            with accepted:
                accepted.settimeout(_ANSWER_S)
                client.sendall(b"1")
                accepted.recv(1)
    except OSError as error:
        return Finding("loopback", False, f"cannot connect to 127.0.0.1 (got {_reason(error)})", fix)
    finally:
        for server in servers:
            server.close()
    return Finding("loopback", True, f"{NUM_PORTS} ports of 127.0.0.1 could be bound, and connect")


def shared_memory(folder: Path = _SHM) -> Finding:
    """Checks /dev/shm, through which processes on one machine communicate."""
    fix = "in Docker: --shm-size=1g; in Kubernetes: an emptyDir of medium Memory"
    if not os.access(folder, os.W_OK):
        return Finding("/dev/shm", False, "is not writable", f"mount it; {fix}")
    return enough("/dev/shm", shutil.disk_usage(folder).free / _MIB, MIN_SHM_MIB, "MiB free", f"enlarge it; {fix}")


def memory(needed_mib: float) -> Finding:
    """Checks the memory available within this container's limit."""
    fix = (
        "stop other programs, or raise the container's limit (in pods cluster.launcher.host.memory or "
        "parameter_server.memory, see `sangam plan`)"
    )
    return enough("memory", available_bytes() / _MIB, needed_mib, "MiB available", fix)


def descriptors(needed: int) -> Finding:
    """Checks the limit of open files; the launcher raises its own, and so its children's, as far as this is allowed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    allowed = math.inf if hard == resource.RLIM_INFINITY else hard
    return enough("files", allowed, needed, "open files allowed", "raise the limit (`ulimit -Hn`), or use fewer ranks")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def enough(name: str, got: float, wanted: float, unit: str, fix: str) -> Finding:
    """Returns the finding of a check that compares two amounts."""
    detail = f"{_amount(got)} {unit}, {_amount(wanted)} needed"
    return Finding(name, got >= wanted, detail, "" if got >= wanted else fix)


def _amount(number: float) -> str:
    if math.isinf(number):
        return "any number of"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
