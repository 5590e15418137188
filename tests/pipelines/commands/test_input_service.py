"""`sangam input-service` tells what it cannot do, in one line and before TensorFlow is loaded."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sangam.schemas.host.lock import LOCK_FILE
from tests.errors import tells
from tests.paths import REPOSITORY

NOWHERE = "localhost:1"


def _refusal(*arguments: str) -> str:
    command = [sys.executable, "-m", "sangam.pipelines.cli", "input-service", *arguments]
    done = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@pytest.mark.processes
def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = _refusal("dispatcher", "--work-dir", str(tmp_path / "work"), "--port", port)
    assert tells(told, "--port", f"(got {port}: Address already in use)")


@pytest.mark.processes
def test_a_work_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "work"
    told = _refusal("dispatcher", "--work-dir", str(folder), "--port", "0")
    assert tells(told, "--work-dir", f"(got {folder}: Not a directory)")


@pytest.mark.processes
def test_a_work_directory_of_another_dispatcher_is_told(tmp_path: Path) -> None:
    lock = os.open(tmp_path / LOCK_FILE, os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    told = _refusal("dispatcher", "--work-dir", str(tmp_path), "--port", "0")
    os.close(lock)
    assert tells(told, "--work-dir", f"another dispatcher uses it (got {tmp_path}, held by process unknown)")


@pytest.mark.processes
def test_a_dispatcher_that_does_not_answer_is_told() -> None:
    told = _refusal("worker", "--dispatcher", NOWHERE, "--patience-s", "1")
    assert tells(told, "--dispatcher", f"1 s (got {NOWHERE} does not answer)")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        (["--dispatcher", "nobody"], "--dispatcher", "(got 'nobody')"),
        (["--dispatcher", NOWHERE, "--all-interfaces"], "--advertise", "(got '')"),
        (["--dispatcher", NOWHERE, "--advertise", "me"], "--advertise", "(got 'me')"),
        (["--dispatcher", NOWHERE, "--all-interfaces", "--advertise", "me:x"], "--advertise", "(got 'me:x')"),
    ],
)
def test_a_wrong_address_is_told(options: list[str], place: str, value: str) -> None:
    assert tells(_refusal("worker", *options), place, value)


@pytest.mark.processes
def test_a_port_of_metrics_in_use_is_told(tmp_path: Path) -> None:
    own = ["--work-dir", str(tmp_path / "work"), "--port", "0"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = _refusal("dispatcher", *own, "--metrics-port", port)
    assert tells(told, "--metrics-port", f"(got 127.0.0.1:{port}: Address already in use)")
    assert tells(_refusal("dispatcher", *own, "--metrics-target", "m.json"), "--metrics-target", "(got m.json)")


@pytest.mark.processes
def test_whoever_listens_to_other_machines_is_warned(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [
            sys.executable,
            "-m",
            "sangam.pipelines.cli",
            "input-service",
            "dispatcher",
            "--work-dir",
            str(tmp_path),
        ]
        command += ["--port", port, "--all-interfaces"]
        done = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=30)
    warning, refusal = done.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert "authentication" in warning
    assert tells(refusal, "--port", f"(got {port}")
