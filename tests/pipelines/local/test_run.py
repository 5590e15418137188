"""Runs of a tiny pipeline in real processes: cached, failing, killed, stopped."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.warm_commands import Started
from tests.errors import tells
from tests.pipelines.processes import is_running

pytestmark = pytest.mark.slow

TIMEOUT_S = 120


class Place:
    """A data folder and a root, and the tiny pipeline run on them."""

    def __init__(self, folder: Path):
        self.data, self.root, self.hangs = folder / "data", folder / "root", folder / "hangs"
        self._numbers = itertools.count()
        self.data.mkdir()

    def start(self, second: str = "") -> Started:
        # However busy the machine is, a run that can tidy up gets to it.
        told = {"TINY_SECOND": second, "TINY_HANGS": str(self.hangs), "TINY_STOP_S": "30"}
        words = ["tests.pipelines.local.sample_run", str(self.data), str(self.root)]
        output = self.data.parent / f"output-{next(self._numbers)}.txt"
        return Started(words, os.environ | told, output, output.with_suffix(".errors"))

    def run(self, second: str = "") -> tuple[int, str, str]:
        process = self.start(second)
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode is not None
        return process.returncode, out, err

    def child_of_hanging(self, process: Started) -> int:
        """Waits until the second step hangs and returns the id of the process that it started."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.hangs.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return int(self.hangs.read_text())

    def summaries(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.root.glob("runs/2*/summary.json"))]

    def output_files(self, step: str) -> list[str]:
        return sorted(path.name for path in (self.root / "artifacts" / step).rglob("*") if path.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def hanging(place: Place) -> Iterator[tuple[Started, int]]:
    process = place.start("hang")
    child = 0
    try:
        child = place.child_of_hanging(process)
        yield process, child
    finally:
        process.kill()
        process.communicate()
        if child and is_running(child):
            os.kill(child, signal.SIGKILL)


def test_a_second_run_takes_every_step_from_the_first(place: Place) -> None:
    # 3: a run without an evaluator blesses nothing.
    assert place.run()[0] == 3
    code, out, err = place.run()
    assert code == 3, err
    first, second = place.summaries()
    assert [step["state"] for step in first["steps"].values()] == ["ran", "ran"]
    assert [step["state"] for step in second["steps"].values()] == ["cached", "cached"]
    assert second["status"] == "ended"
    assert second["steps"]["second"]["peak_memory_bytes"] > 100 * 2**20
    assert 0 < first["steps"]["second"]["cpu_seconds"] < 60
    assert "cached" in out
    assert str(place.root / "runs" / second["run"] / "summary.json") in out
    assert not err
    logs = place.root / "runs" / first["run"] / "logs"
    assert "second speaks" in (logs / "second.log").read_text()


def test_a_failing_step_leaves_a_summary_its_log_and_no_output(place: Place) -> None:
    code, out, err = place.run("fail")
    assert code == 1
    [summary] = place.summaries()
    assert (summary["status"], summary["failed_step"]) == ("failed", "second")
    assert summary["error"] == "ValueError: second fails as told"
    assert "Traceback" not in out + err
    log = Path(err.splitlines()[-1].removeprefix("log: "))
    assert "ValueError: second fails as told" in log.read_text()
    assert place.output_files("second") == []


def test_a_full_disk_is_one_sentence_and_leaves_a_summary(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.root.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place.root)], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a small disk: {mounted.stderr.strip()}")
    try:
        code, out, err = place.run("fill")
        assert code == 1, out + err
        sentence, log = err.splitlines()
        path, size = re.escape(str(place.root / "artifacts" / "second")), r"[\d.]+ k?M?B"
        assert re.fullmatch(
            rf"second: .*\(got {size} free at {path}\S*, {size} .*\); .* {size}\b.*--root.*", sentence
        ), sentence
        [summary] = place.summaries()
        assert (summary["status"], summary["failed_step"], summary["error"]) == ("failed", "second", sentence)
        assert "No space left on device" in Path(log.removeprefix("log: ")).read_text()
    finally:
        subprocess.run(["umount", str(place.root)], check=True)


def test_a_users_mistake_is_told_in_its_own_words(place: Place) -> None:
    code, _, err = place.run("mistake")
    assert code == 2
    said, log = err.splitlines()
    assert tells(said, "data", "(got this)")
    assert log.startswith("log: ")


def test_after_kill_9_a_run_resumes_and_takes_nothing_half_written(place: Place, hanging: tuple[Started, int]) -> None:
    process, _ = hanging
    other = place.run()
    assert other[0] == 4
    [held_by] = re.findall(r"held by process (\d+)", other[2])
    assert process.pid in (int(held_by), psutil.Process(int(held_by)).ppid())
    assert place.output_files("second") == ["half.txt"]
    process.kill()
    process.communicate()
    while is_running(int(held_by)):
        time.sleep(0.01)
    assert place.summaries() == []
    code, _, err = place.run()
    assert code == 3, err
    [summary] = place.summaries()
    assert [step["state"] for step in summary["steps"].values()] == ["cached", "ran"]
    assert place.output_files("second") == ["half.txt", "sum.txt"]
    assert _execution_states(place.root) == ["CACHED", "COMPLETE", "COMPLETE", "FAILED"]


def test_a_run_that_the_kernel_kills_leaves_a_summary_too(place: Place, hanging: tuple[Started, int]) -> None:
    process, child = hanging
    [run] = psutil.Process(process.pid).children()
    run.kill()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    [summary] = place.summaries()
    assert (summary["status"], summary["failed_step"]) == ("failed", "second")
    assert tells(summary["error"], "second", "SIGKILL")
    assert [step["state"] for step in summary["steps"].values()] == ["ran", "failed"]
    page = (place.root / "runs" / summary["run"] / "report.html").read_text()
    assert "SIGKILL" in page
    assert not is_running(child)


def test_sigterm_stops_the_run_and_every_process_it_started(place: Place, hanging: tuple[Started, int]) -> None:
    process, child = hanging
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 143, err
    assert not is_running(child)
    [summary] = place.summaries()
    assert (summary["status"], summary["failed_step"]) == ("stopped", "second")
    assert summary["error"] == "stopped by SIGTERM"
    assert summary["steps"]["second"]["state"] == "stopped"
    assert "summary.json" in out
    assert place.output_files("second") == []
    assert _execution_states(place.root) == ["COMPLETE", "FAILED"]


def _execution_states(root: Path) -> list[str]:
    """Returns the states of all executions, sorted; read by a process of its own, which keeps this one light."""
    program = (
        "import sys\n"
        "from ml_metadata import metadata_store\n"
        "from ml_metadata.proto import metadata_store_pb2 as pb\n"
        "config = pb.ConnectionConfig()\n"
        "config.sqlite.filename_uri = sys.argv[1]\n"
        "found = metadata_store.MetadataStore(config).get_executions()\n"
        "print(*sorted(pb.Execution.State.Name(one.last_known_state) for one in found))\n"
    )
    command = [sys.executable, "-c", program, str(root / "metadata.sqlite")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
