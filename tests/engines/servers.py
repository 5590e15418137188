"""The processes of an engine on this machine: a job service and a worker pool, each of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engines.programs import prism
from tests.paths import REPOSITORY

_START_S = 90.0
OUR_POOL = ("-m", "sangam.components.beam.worker_pool", "--port")
BARE_POOL = """
import sys, time
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
serving = BeamFnExternalWorkerPoolServicer.start(port=int(sys.argv[1]))
time.sleep(600)
"""
"""Beam's own pool, with workers in its threads, which find no package of ours."""


@dataclass(frozen=True)
class Server:
    """A process that listens.

    Attributes:
        address: host:port.
        log: file with its output.
    """

    address: str
    process: "subprocess.Popen[bytes]"
    log: Path


@contextmanager
def job_service(folder: Path) -> Iterator[Server]:
    """Runs prism; where Go is missing, Beam's job service in Python."""
    port, program = free_port(), prism()
    if program:
        command = [str(program), "-job_port", str(port), "-serve_http=false"]
    else:
        command = [sys.executable, "-m", "apache_beam.runners.portability.local_job_service_main", "-p", str(port)]
    with _serving(command, port, folder / "job_service.log") as server:
        yield server


@contextmanager
def worker_pool(folder: Path, words: Sequence[str] = OUR_POOL, code: Path = REPOSITORY) -> Iterator[Server]:
    """Runs a worker pool.

    Args:
        folder: for its log.
        words: of Python, the port follows.
        code: folder of the packages that it finds first.
    """
    port = free_port()
    command = [sys.executable, *words, str(port)]
    with _serving(command, port, folder / f"pool-{port}.log", cwd=folder, PYTHONPATH=str(code)) as server:
        yield server


def free_port() -> int:
    """Returns a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def _serving(
    command: Sequence[str], port: int, log: Path, cwd: Path | None = None, **environment: str
) -> Iterator[Server]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=cwd, env=os.environ | environment)
    try:
        deadline = time.monotonic() + _START_S
        while not _listens(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield Server(f"localhost:{port}", process, log)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        asking.settimeout(1)
        return asking.connect_ex(("localhost", port)) == 0
