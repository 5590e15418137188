"""Coordinators and hosts as the first process of a container, which the kernel gives no default action of SIGTERM."""

import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.trainer_module.launch.cluster_job import ClusterJob, Place
from tests.trainer_module.launch.launched_job import wait_until
from tests.trainer_module.sample_job import declared, write_job

pytestmark = [pytest.mark.processes, pytest.mark.long]

_REAL = {"coordinator": ("sangam.trainer_module.launch.coordinator",), "host": ("sangam.trainer_module.launch.host",)}
_MOMENTS_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
"""After there is a handler: before that, and before Python runs, the kernel drops the signal."""
_SIGTERM_BIT = 1 << 14


@pytest.fixture
def container() -> Place:
    """A namespace of processes."""
    prefix = ["unshare", "--pid", "--fork", "--kill-child"]
    if os.geteuid():
        prefix[1:1] = ["--user", "--map-root-user"]
    done = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to make a namespace of processes: {done.stderr.strip()}")
    return Place(prefix)


def _first_process(unshared: "subprocess.Popen[bytes]") -> psutil.Process:
    wait_until(lambda: psutil.Process(unshared.pid).children(), 60, "the namespace has its first process")
    [first] = psutil.Process(unshared.pid).children()
    return first


def _catches_sigterm(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(line.startswith("SigCgt") and int(line.split()[1], 16) & _SIGTERM_BIT for line in lines)


@pytest.mark.parametrize("role", ["coordinator", "host"])
def test_sigterm_in_the_first_second_is_heard(tmp_path: Path, container: Place, role: str) -> None:
    job_file = write_job(tmp_path, declared(ranks=1), ())
    with ClusterJob(job_file, hosts=1, places=[container], **_REAL) as job:
        took_s = []
        for moment_s in _MOMENTS_S:
            unshared = job.coordinator() if role == "coordinator" else job.host(0)
            first = _first_process(unshared)
            wait_until(lambda pid=first.pid: _catches_sigterm(pid), 60, "it has a handler")
            took_s.append(sum(first.cpu_times()[:2]))
            time.sleep(moment_s)
            first.terminate()
            assert unshared.wait(60) == 143, moment_s
        assert min(took_s) < 0.15, "the handler comes after the imports"
