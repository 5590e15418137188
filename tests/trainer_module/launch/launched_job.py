"""A training job under its launcher, to be watched and disturbed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from sangam.trainer_module.checkpoint.folder import published, step_of
from tests.trainer_module.launch import warm

_LAUNCHER = "sangam.trainer_module.launch.launcher"


def launch(job_file: Path, environment: Mapping[str, str] | None = None) -> warm.Warm:
    """Starts a job's launcher as the leader of its own process group.

    Args:
        job_file: written.
        environment: added to this process's.
    """
    return warm.start([_LAUNCHER, str(job_file), str(os.getpid())], job_file.parent / "launch.log", environment)


def launch_as_users_do(job_file: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a job's launcher as a program, in a process group of its own, with more variables."""
    log = (job_file.parent / "launch.log").open("ab")
    command = [sys.executable, "-m", _LAUNCHER, str(job_file), str(os.getpid())]
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **environment})


def group_of(leader: int) -> list[psutil.Process]:
    """Returns the living processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Waits for something to come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def wait_for_training(job_file: Path) -> None:
    """Waits for the first line of progress; fails with the logs of a job that ends before."""
    logs = job_file.parent / "logs"
    progress, failed = logs / "progress.jsonl", logs / "failure.txt"

    def has_begun() -> bool:
        return progress.exists() and '"step"' in progress.read_text()

    wait_until(lambda: has_begun() or failed.exists(), 180, "training has started")
    if not has_begun():
        said = [f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in sorted(logs.glob("*.log"))]
        raise AssertionError("\n".join([failed.read_text(), *said]))


def last_step(job_file: Path) -> int:
    """Returns the step of the job's last checkpoint, 0 without one."""
    found = published(job_file.parent / "checkpoints")
    return step_of(found[-1]) if found else 0


def wait_for_step(job_file: Path, step: int) -> None:
    """Waits for a checkpoint of this step or a later one."""
    wait_until(lambda: last_step(job_file) >= step, 90, f"a checkpoint of step {step}")


def rank_process(leader: int, rank: int) -> psutil.Process:
    """Returns the process of a rank."""
    # A forked process has its own environment, but the kernel shows that of the process it was forked from.
    logs = {Path(f"/proc/{process.pid}/fd/1").readlink().stem: process for process in group_of(leader)}
    return logs[f"rank-{rank}"]


def process_with(leader: int, word: str) -> psutil.Process:
    """Returns the process that was started with a word among its arguments."""
    return next(process for process in group_of(leader) if any(word in part for part in process.cmdline()))


def failure(job_file: Path) -> str:
    """Returns why the job failed."""
    return (job_file.parent / "logs" / "failure.txt").read_text()
