import errno
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.trainer_module.launch import machine
from sangam.trainer_module.launch.host import Host
from sangam.trainer_module.launch.machine import refuse_unfit_machine
from sangam.trainer_module.launch.messages import Command, Heartbeat
from tests.errors import mentions, place_and_value, tells
from tests.trainer_module.launch.launched_job import failure
from tests.trainer_module.sample_job import declared, job, write_job

pytestmark = pytest.mark.slow  # The sample job imports TensorFlow.

_NO_LOOPBACK = ["unshare", "--map-root-user", "--net"]


def test_this_machine_can_train(tmp_path: Path) -> None:
    refuse_unfit_machine(job(tmp_path, declared(ranks=2, data_workers=2), ()), ranks=2, processes=2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


def test_a_launcher_without_loopback_says_so_before_it_starts_anything(tmp_path: Path) -> None:
    if subprocess.run([*_NO_LOOPBACK, "true"], check=False).returncode:
        pytest.skip("this machine lets nobody make a network")
    job_file = write_job(tmp_path, declared(ranks=2, data_workers=2), ())
    command = [sys.executable, "-m", "sangam.trainer_module.launch.launcher", str(job_file), str(os.getpid())]
    done = subprocess.run([*_NO_LOOPBACK, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitCode.MISTAKE
    assert tells(failure(job_file), "training", "loopback ... (got Network is unreachable)")
    assert "Traceback" not in done.stderr
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["failure.txt"]


def _fails(*_: object, **__: object) -> None:
    raise OSError(errno.ECONNREFUSED, "Connection refused")


def test_a_firewall_before_loopback_refuses_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", _fails)
    with pytest.raises(UserError, match=place_and_value("training", "loopback ... (got Connection refused)")):
        refuse_unfit_machine(job(tmp_path, declared(), ()), ranks=1, processes=1)


class Leading:
    """A coordinator that begins an attempt, and ends the job once the host has failed."""

    host, port = "127.0.0.1", 1

    def __init__(self) -> None:
        self.heard: list[Heartbeat] = []

    def send(self, heartbeat: Heartbeat) -> Command:
        self.heard.append(heartbeat)
        if heartbeat.failure is not None:
            return Command(action="failed", alone_s=5)
        return Command(action="train", attempt="a-0", hosts=2, alone_s=5)

    def hold(self, lifeline: Any) -> None:
        """Needs no lifeline."""


@pytest.mark.parametrize("index", [0, 2])
def test_a_host_of_ranks_or_of_a_server_refuses_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    monkeypatch.setattr(machine.shared_memory, "__defaults__", (tmp_path / "none",))
    sync = {"kind": "stale"}
    link: Any = Leading()
    made = job(tmp_path, declared(ranks=2, sync=sync, parameter_servers=1), ())
    Host(tmp_path / "job.json", made, link, index=index, interface="lo").follow(patience_s=5)
    failed = link.heard[-1].failure
    assert failed.cause == "mistake"
    assert tells(failed.text, "training", "/dev/shm ... not writable")


def test_ports_that_are_all_taken_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_server", _fails)
    assert mentions(machine.connection().detail, "cannot listen ... 127.0.0.1 ... (got Connection refused)")


@pytest.mark.parametrize(
    ("addresses", "name", "got"),
    [
        ({}, "localhost", "(got unknown)"),
        ({"localhost": "203.0.113.7"}, "localhost", "(got 203.0.113.7)"),
        ({"localhost": "127.0.0.1"}, "box-7", "(got unknown)"),
        ({"localhost": "127.0.0.1", "box-7": "slow"}, "box-7", "(got no answer within 1 s)"),
    ],
)
def test_a_name_of_this_machine_that_leads_nowhere_is_told(
    monkeypatch: pytest.MonkeyPatch, addresses: dict[str, str], name: str, got: str
) -> None:
    told = threading.Event()

    def look_up(asked: str) -> str:
        if asked not in addresses:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        if addresses[asked] == "slow":
            told.wait(60)
        return addresses[asked]

    monkeypatch.setattr(machine, "_ANSWER_S", 1.0 if "slow" in addresses.values() else 60.0)
    monkeypatch.setattr(socket, "gethostbyname", look_up)
    finding = machine.resolution(["localhost", "box-7"])
    told.set()
    assert not finding.is_ok
    assert mentions(finding.detail, f"{name} {got}")
    assert "/etc/hosts" in finding.fix


def test_too_little_of_anything_is_told_with_what_is_needed(tmp_path: Path) -> None:
    findings = [machine.memory(1e9), machine.descriptors(10**9), machine.shared_memory(tmp_path / "none")]
    assert not any(finding.is_ok for finding in findings)
    assert [finding.detail.endswith("1,000,000,000 needed") for finding in findings] == [True, True, False]
