"""The wheel in an empty environment, in a folder that is no checkout: what works after each step of the installation.

`make test-package` runs it; the tests are steps of one installation, in this order.
"""

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

pytestmark = pytest.mark.timeout(1200)
_LONGEST_S = 900
_ROWS = "authors=1e6,contexts=1e6,hashtags=1e6,posts=1e6,users=1e6"
_OVER_HOROVOD = "training:\n  sync: {kind: sync, transport: horovod}\n"


class Installed:
    """An environment with the wheel, and a folder to work in."""

    def __init__(self, folder: Path):
        self.folder, self._bin = folder, folder / "env" / "bin"

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a command to its end; returns its output."""
        done = self.ended(*words)
        assert done.returncode == code, done.stdout[-5000:]
        assert "Traceback" not in done.stdout
        return done.stdout

    def ended(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end."""
        return subprocess.run(
            [self._bin / words[0], *words[1:]],
            cwd=self.folder,
            env=self._environment() | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )

    @contextmanager
    def serving(self, *words: str) -> Iterator[str]:
        """Runs a server; yields the first address that it prints."""
        process = subprocess.Popen(
            [self._bin / words[0], *words[1:]],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            yield _address(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()

    def _environment(self) -> dict[str, str]:
        left_out = ("PYTHON", "VIRTUAL_ENV", "TF_", "SANGAM_", "HOROVOD_", "MAKE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        return {**kept, "PATH": f"{self._bin}:{os.environ['PATH']}"}


def _address(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    said, given_up = b"", time.monotonic() + 120
    while time.monotonic() < given_up and process.poll() is None:
        if select.select([process.stdout], [], [], 0.2)[0]:
            said += os.read(process.stdout.fileno(), 4096)
        if found := re.search(rb"http://[\w.:\[\]]+", said):
            return found[0].decode()
    raise AssertionError(said.decode())


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    uv = REPOSITORY / ".tools" / "bin" / "uv"
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", folder, REPOSITORY], check=True)
    subprocess.run([Path(sys.base_prefix, "bin", "python3.11"), "-m", "venv", folder / "env"], check=True)
    made = Installed(folder)
    (wheel,) = folder.glob("sangam-*.whl")
    made.run("pip", "install", "--quiet", wheel.name)
    return made


@pytest.fixture(scope="module")
def ready(installed: Installed) -> Installed:
    """The environment after `sangam setup --without-horovod`."""
    installed.run("sangam", "setup", "--without-horovod")
    return installed


def test_the_wheel_alone_knows_its_commit_validates_and_plans(installed: Installed) -> None:
    commit = subprocess.run(
        ["git", "-C", REPOSITORY, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    version = json.loads(installed.run("sangam", "version", "--json"))
    assert version["commit"].removesuffix("-dirty") == commit
    spec = next((installed.folder / "env").glob("lib/*/site-packages/sangam/pipelines/specs/short_video.yaml"))
    (installed.folder / "demo.yaml").write_text(spec.read_text())
    installed.run("sangam", "validate", "demo.yaml")
    assert "users" in installed.run("sangam", "plan", "demo.yaml", "--rows", _ROWS)


def test_what_needs_more_says_how_to_get_it(installed: Installed) -> None:
    said = installed.run("sangam", "generate", "--output", "logs", code=2)
    assert "run `sangam setup`" in said
    assert said.count("\n") == 1
    assert re.search(r", and \d\d\d more", installed.run("sangam", "doctor", code=1))


def test_ranks_share_memory_without_horovod_and_their_model_is_served_and_shown(ready: Installed) -> None:
    ready.run("sangam", "generate", "--output", "logs", "--rows-per-day", "4000")
    ready.run("sangam", "init", "logs", "--output", "spec.yaml")
    run = ["--date", "2024-03-07", "--data", "logs", "--root", "runs"]
    ready.run("sangam", "run", "spec.yaml", *run)
    [log] = (ready.folder / "runs" / "runs").glob("2*/logs/rank-1.log")
    assert "ranks=2" in log.read_text()
    pushed = next((ready.folder / "runs" / "serving").iterdir())
    with ready.serving("sangam", "serve", str(pushed), "--rest-port", "0", "--grpc-port", "0") as address:
        state = json.loads(_get(f"{address}/v1/models/{pushed.name}"))["model_version_status"][0]["state"]
    assert state == "AVAILABLE"
    with ready.serving("sangam", "ui", "runs", "--port", "0") as address:
        assert "20240307001" in _get(address)


def test_without_horovod_ranks_that_need_it_are_refused_at_once(ready: Installed) -> None:
    run = ["--date", "2024-03-07", "--data", "logs", "--root", "refused"]
    assert "dense layers: " in ready.run("sangam", "plan", "demo.yaml", "--rows", _ROWS, "--layers")
    demo = (ready.folder / "demo.yaml").read_text()
    (ready.folder / "apart.yaml").write_text(demo.replace("training:\n", _OVER_HOROVOD, 1))
    said = ready.run("sangam", "run", "apart.yaml", *run, code=2)
    assert "training.sync.transport" in said
    assert "sangam setup" in said
    assert not (ready.folder / "refused" / "runs").exists()


def test_set_up_whole_the_doctor_is_content_and_the_demo_is_pushed(ready: Installed) -> None:
    # Horovod as `make setup` has compiled it, where uv still has it.
    if ready.ended("sangam", "setup", UV_OFFLINE="1").returncode != 0:
        ready.run("sangam", "setup")
    findings = json.loads(ready.run("sangam", "doctor", "--json"))
    assert {"python", "libraries", "horovod", "tfra", "memory", "operations"} <= {each["name"] for each in findings}
    assert all(each["is_ok"] for each in findings), findings
    assert "pushed: version 20240307001" in ready.run("sangam", "demo", "demo")


def test_parts_of_another_package_run_as_its_readme_says(ready: Installed) -> None:
    shutil.copytree(REPOSITORY / "examples" / "parts", ready.folder / "examples" / "parts")
    blocks = re.findall(r"```sh\n(.*?)```", (REPOSITORY / "examples" / "parts" / "README.md").read_text(), re.DOTALL)
    said = [ready.run(*shlex.split(line)) for block in blocks for line in block.splitlines()]
    assert "pushed: version 20240303001" in said[4]
    assert "recall_at_precision" in said[4]
    assert re.search(r"codebooks: {path: codebooks_of_posts.npy, sha256: [0-9a-f]{64}}", said[5])
