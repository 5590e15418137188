"""Processes of the images, started as in a pod: nothing is written outside /tmp, /dev/shm and the volumes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.security.as_in_a_pod import command_line, why_not

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _possible() -> None:
    if reason := why_not():
        pytest.skip(f"no private mounts here: {reason}")


def _in_a_pod(*command: str, volumes: tuple[str, ...] = (), limit_s: float = 60) -> "subprocess.CompletedProcess[str]":
    started = command_line(command, volumes)
    return subprocess.run(started, capture_output=True, text=True, timeout=limit_s, check=False)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    os.chown(folder, 10001, 10001)
    return folder


def test_only_tmp_shared_memory_and_volumes_can_be_written_to(volume: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o777)
    places = ["/", "/etc", "/var/tmp", "/mnt", "/mnt/data", str(Path.cwd()), "/tmp", "/dev/shm", "/mnt/volume"]
    tries = "; ".join(f"touch {place}/tried && echo {place}" for place in places)
    done = _in_a_pod("sh", "-c", tries + "; id -u", volumes=(str(volume), f"{tmp_path / 'data'}:ro"))
    assert done.stdout.split() == ["/tmp", "/dev/shm", "/mnt/volume", "10001"]
    assert os.listdir(volume) == ["tried"]


def test_the_command_line_works(demo_spec_path: Path) -> None:
    done = _in_a_pod("python", "-m", "sangam.pipelines.cli", "validate", str(demo_spec_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok short_video ")


def test_the_data_service_serves_and_stops_when_told_to(volume: Path) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    arguments = ["dispatcher", "--port", str(port), "--work-dir", "/mnt/volume/journal"]
    command = command_line(["python", "-m", "sangam.trainer_module.launch.data_service", *arguments], [str(volume)])
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert service.poll() is None, service.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        service.send_signal(signal.SIGTERM)
        output, _ = service.communicate(timeout=30)
    finally:
        service.kill()
        service.wait()
    assert service.returncode in (0, 128 + signal.SIGTERM), output
    journal = list((volume / "journal").rglob("journal_*"))
    assert [path.stat().st_uid for path in journal] == [10001], output
    assert "Read-only" not in output


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_python_is_the_one_of_this_test() -> None:
    done = _in_a_pod("python", "-c", "import sys; print(sys.executable, sys.dont_write_bytecode)")
    assert done.stdout.split() == [str(Path(sys.executable)), "True"]
