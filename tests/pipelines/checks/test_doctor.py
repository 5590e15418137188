"""What the doctor finds."""

import errno
import importlib.metadata
import socket
import sys
from pathlib import Path

import pytest

from sangam.pipelines.checks import doctor
from sangam.pipelines.checks.doctor import PROBES, library_versions, probe, python_version
from sangam.trainer_module.launch import machine
from tests.errors import mentions


def test_libraries_as_pinned_are_fine(tmp_path: Path) -> None:
    version = importlib.metadata.version("pydantic")
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"pydantic=={version} ; sys_platform == 'linux' \\\n    --hash=sha256:00\n")
    finding = library_versions(lock)
    assert finding.is_ok
    assert finding.detail == "1 as pinned in requirements.lock"


def test_another_version_and_a_missing_library_are_named(tmp_path: Path) -> None:
    version = importlib.metadata.version("pydantic")
    lock = tmp_path / "requirements.lock"
    lock.write_text("pydantic==0.0.1 \\\n    --hash=sha256:00\nno-such-library==2.0\n")
    finding = library_versions(lock)
    assert not finding.is_ok
    assert mentions(finding.detail, f"no-such-library 2.0 (got nothing), pydantic 0.0.1 (got {version})")
    assert "sangam setup" in finding.fix


def test_every_library_here_is_as_pinned(repository: Path) -> None:
    finding = library_versions(repository / "requirements.lock")
    assert finding.is_ok, finding.detail


def test_a_machine_on_which_trainings_would_be_open_to_the_network_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor.ports().is_ok
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    finding = doctor.ports()
    assert (finding.is_ok, finding.fix) == (False, "install gcc")
    assert "network" in finding.detail


def test_the_doctor_makes_the_checks_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBES", {})
    monkeypatch.setattr(socket, "create_connection", _unreachable)
    monkeypatch.setenv("https_proxy", "http://proxy.example")
    findings = {finding.name: finding for finding in doctor.examine()}
    assert {"names", "loopback", "/dev/shm", "memory", "files"} <= findings.keys()
    assert not findings["loopback"].is_ok
    assert "https_proxy" in findings["proxies"].detail


def _unreachable(*_: object, **__: object) -> None:
    raise OSError(errno.ENETUNREACH, "Network is unreachable")


def test_a_lock_file_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    assert "checkout" in library_versions(tmp_path / "no.lock").fix


def test_the_interpreter_is_the_one_wanted() -> None:
    assert python_version().is_ok


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("import os; os.abort()", "(killed by signal 6)"),
        ("raise ImportError('no such op')", "no such op (exit code 1)"),
        ("import time; time.sleep(60)", "no answer within 0.5 s"),
    ],
)
def test_a_probe_that_crashes_fails_or_hangs_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, program: str, detail: str
) -> None:
    monkeypatch.setitem(PROBES, "tfra", program)
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_S", 0.5 if "sleep" in program else 30)
    finding = probe("tfra")
    assert not finding.is_ok
    assert finding.detail.endswith(detail)
    assert finding.fix


def test_a_machine_with_too_little_is_told_how_much_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = machine.memory(10**9)
    assert not finding.is_ok
    assert finding.detail.endswith("MiB available, 1,000,000,000 needed")
    assert "container" in finding.fix


@pytest.mark.slow
def test_the_operations_are_compiled() -> None:
    assert doctor.operations().is_ok


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROBES))
def test_the_libraries_here_work(name: str) -> None:
    finding = probe(name)
    assert finding.is_ok, finding.detail
