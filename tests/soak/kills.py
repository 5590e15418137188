"""Kills processes of a training job at random times until it ends by itself."""

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.trainer_module.launch.launched_job import group_of, last_step, launch
from tests.trainer_module.trained_examples import report_of

_LONGEST_WAIT_S = 300.0
_POLL_S = 0.1
ROLES = {
    "rank": "sangam.trainer_module",
    "parameter server": "sangam.trainer_module.parameter_server",
    "data service": "sangam.trainer_module.launch.data_service",
    "launcher": "sangam.trainer_module.launch.launcher",
    "nursery": "sangam.trainer_module.launch.nursery",
}
"""The module that each kind of process runs."""


@dataclass
class Soaked:
    """What became of a job.

    Attributes:
        kills: how many processes of each kind were killed.
        launches: how often the job was started.
        seconds: it took.
    """

    kills: Counter[str] = field(default_factory=Counter)
    launches: int = 1
    seconds: float = 0.0


def soak(job_file: Path, *, seed: int, kills: int | Sequence[str], mean_pause_s: float) -> Soaked:
    """Runs a job to its end, and kills a process of it now and then; returns what became of it.

    A kill comes after a checkpoint later than the last one's, so that the job advances. A job that has lost as many
    processes as it may is started again, as its user would.

    Args:
        job_file: of a job without an export.
        seed: of the times and the victims.
        kills: the kinds of the victims in their order, or how many at most, of any kind.
        mean_pause_s: between two of them.

    Raises:
        AssertionError: the job does not advance, or leaves a process behind.
    """
    chance, told, started = random.Random(seed), Soaked(), time.monotonic()
    launched = launch(job_file)
    step, most = 0, kills if isinstance(kills, int) else len(kills)
    try:
        while not _is_trained(job_file):
            is_over = _wait_for_a_later_step(job_file, launched, step)
            if not is_over and (number := sum(told.kills.values())) < most:
                time.sleep(chance.uniform(0.0, 2.0 * mean_pause_s))
                step = last_step(job_file)
                _kill_one(launched, chance, told, ROLES if isinstance(kills, int) else [kills[number]])
            if launched.poll() is not None and not _is_trained(job_file):
                _wait_until_gone(launched)
                launched = launch(job_file)
                told.launches += 1
            if sum(told.kills.values()) == most:
                step = 10**9
        launched.wait(_LONGEST_WAIT_S)
        _wait_until_gone(launched)
    finally:
        for process in group_of(launched.pid):
            process.kill()
    told.seconds = time.monotonic() - started
    return told


def auc_of(directory: Path) -> float:
    """Returns the AUC of a job's validation split after its last epoch."""
    auc: float = report_of(directory)["epochs"][-1]["validation"]["like"]["auc"]
    return auc


def _is_trained(job_file: Path) -> bool:
    return (job_file.parent / "output" / "training.json").exists()


def _wait_for_a_later_step(job_file: Path, launched: "subprocess.Popen[bytes]", step: int) -> bool:
    """Waits for a checkpoint after a step; returns whether the job ended instead."""
    given_up = time.monotonic() + _LONGEST_WAIT_S
    while launched.poll() is None and not _is_trained(job_file):
        if last_step(job_file) > step:
            return False
        assert time.monotonic() < given_up or step == 10**9, f"no checkpoint after step {step} in {_LONGEST_WAIT_S} s"
        time.sleep(_POLL_S)
    return True


def _kill_one(launched: "subprocess.Popen[bytes]", chance: random.Random, told: Soaked, roles: Collection[str]) -> None:
    by_role: dict[str, list[psutil.Process]] = {}
    for process in group_of(launched.pid):
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        for role in roles:
            if ROLES[role] in words:
                by_role.setdefault(role, []).append(process)
    if not by_role:
        return
    role = chance.choice(sorted(by_role))
    victim = chance.choice(sorted(by_role[role], key=lambda process: process.pid))
    try:
        victim.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return
    told.kills[role] += 1
    if role == "launcher":
        launched.wait()


def _wait_until_gone(launched: "subprocess.Popen[bytes]") -> None:
    given_up = time.monotonic() + 30.0
    while left := group_of(launched.pid):
        assert time.monotonic() < given_up, f"left behind: {left}"
        time.sleep(_POLL_S)
