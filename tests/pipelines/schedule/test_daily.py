"""The run that a timer starts, in real processes: two never meet, and what a run cannot tell itself is told."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sangam.components.record.lock import locked
from sangam.pipelines.schedule.daily import MAX_LOGS, outcome
from tests.e2e.warm_commands import Started
from tests.errors import tells
from tests.fakes.webhook import Webhook, webhook
from tests.paths import REPOSITORY, SPECS
from tests.pipelines.processes import is_running
from tests.trainer_module.launch.launched_job import wait_until

pytestmark = pytest.mark.slow

KEY = "0123456789abcdef"
NOW = "2024-03-01T00:00:30"


class Place:
    """A spec with alerts, folders, and runs that are pretended."""

    def __init__(self, folder: Path, hook: Webhook):
        self.spec, self.data, self.root = folder / "spec.yaml", folder / "data", folder / "root"
        self.spec.write_text((SPECS / "short_video.yaml").read_text() + "\nalerts: {timeout_s: 5}\n")
        self.data.mkdir()
        self.root.mkdir()
        self.hook = hook
        self._numbers = itertools.count()
        self.environment = os.environ | {"SANGAM_ALERT_URL": hook.url, "SANGAM_ALERT_KEY": KEY}

    def tell(self, how: str, code: int = 0, go: str | Path = "") -> None:
        (self.root / "tell").write_text(f"{how}\n{code}\n{go}\n")

    def start(self) -> Started:
        words = ["tests.pipelines.schedule.fake_daily", str(self.spec), str(self.data), str(self.root), NOW]
        output = self.root.parent / f"output-{next(self._numbers)}.txt"
        return Started(words, self.environment, output, output.with_suffix(".errors"))

    def run(self) -> tuple[int | None, str]:
        process = self.start()
        _, err = process.communicate(timeout=60)
        return process.returncode, err

    @property
    def folder(self) -> Path:
        return self.root / "schedule" / "short_video"

    def last_line(self) -> str:
        """Returns the end of the newest log."""
        return max(self.folder.glob("*.log")).read_text().splitlines()[-1]

    def told(self) -> list[dict[str, str]]:
        return [json.loads(received.body) for received in self.hook.received]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with webhook() as hook:
        yield Place(tmp_path, hook)


def test_a_run_is_for_yesterday_and_leaves_its_output(place: Place) -> None:
    place.tell("summary", code=3)
    code, err = place.run()
    assert code == 3
    [log] = place.folder.glob("*.log")
    assert log.name.startswith("20240301T000030-")
    assert log.name.endswith("-2024-02-29.log")
    assert log.read_text() == f"pretends on {place.root}\nrefused by a gate\n"
    assert tells(err, "short_video 2024-02-29", f"refused by a gate ... {log}")
    assert place.told() == []


def test_a_failed_run_that_told_so_itself_is_not_told_twice(place: Place) -> None:
    place.tell("summary", code=1)
    code, err = place.run()
    assert code == 1
    assert f"pretends on {place.root}" in err
    assert place.told() == []


@pytest.mark.parametrize(
    ("how", "given", "code", "words"),
    [
        ("nothing", 1, 1, "failed"),
        ("nothing", 2, 2, "failed: the spec, an option or the logs are wrong"),
        ("kill", 0, 137, "killed by SIGKILL"),
    ],
)
def test_a_run_that_could_not_tell_is_told_of(place: Place, how: str, given: int, code: int, words: str) -> None:
    place.tell(how, code=given)
    assert place.run()[0] == code
    [told] = place.told()
    assert (told["kind"], told["pipeline"], told["date"], told["step"]) == ("failed", "short_video", "2024-02-29", "")
    assert told["reason"] == f"{words}\npretends on {place.root}"
    assert place.last_line() == words


def test_two_runs_never_meet_and_the_second_says_who_holds_the_root(place: Place) -> None:
    go = place.root / "go"
    place.tell("summary", go=go)
    both = [place.start(), place.start()]
    wait_until(lambda: any(process.poll() is not None for process in both), 60, "one of them has ended")
    go.touch()
    errors = {process: process.communicate(timeout=60)[1] for process in both}
    assert sorted(process.returncode for process in both) == [0, 4]
    [second] = [process for process in both if process.returncode == 4]
    assert "not started" in errors[second]
    assert tells(errors[second], "--root", f"(got {place.root}, held by process ")
    [told] = place.told()
    assert told["reason"].startswith("not started")
    assert tells(told["reason"], "--root", "another run")
    assert len(list(place.folder.glob("*.log"))) == 2


def test_a_stop_ends_the_run_and_tells_nobody(place: Place) -> None:
    place.tell("nothing", go="/never")
    process = place.start()
    try:
        deadline = time.monotonic() + 30
        while not any(log.read_text() for log in place.folder.glob("*.log")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert place.last_line() == f"pretends on {place.root}"
        holder = int((place.root / ".lock").read_text().split()[0])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 143
    assert not is_running(holder)
    assert place.last_line() == "stopped"
    assert place.told() == []


def test_every_exit_code_has_words() -> None:
    assert outcome(134) == "killed by SIGABRT"
    assert outcome(99) == "exit code 99"


def test_only_the_newest_logs_are_kept(place: Place) -> None:
    place.folder.mkdir(parents=True)
    for number in range(MAX_LOGS + 5):
        (place.folder / f"20240201T0000{number:02d}-1-2024-01-31.log").touch()
    place.tell("summary")
    assert place.run()[0] == 0
    kept = sorted(path.name for path in place.folder.glob("*.log"))
    assert len(kept) == MAX_LOGS
    assert kept[0] == "20240201T000006-1-2024-01-31.log"
    assert kept[-1].startswith("20240301T000030-")


def test_the_real_command_meets_a_root_in_use(place: Place, tmp_path: Path) -> None:
    variables = tmp_path / "env"
    variables.write_text(f"SANGAM_ALERT_URL={place.hook.url}\nSANGAM_ALERT_KEY={KEY}\n")
    variables.chmod(0o600)
    folders = ["--data", str(place.data), "--root", str(place.root), "--environment", str(variables)]
    command = [sys.executable, "-m", "sangam.pipelines.cli", "schedule", "run", str(place.spec), *folders]
    with locked(place.root):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4, done.stderr
    assert f"held by process {os.getpid()} on " in done.stderr
    assert [told["kind"] for told in place.told()] == ["failed"]


@pytest.mark.long
def test_logs_that_never_arrive_fail_the_run_which_tries_to_tell_so_once(place: Place) -> None:
    arrival = "arrival: {marker: '{YYYY}-{MM}-{DD}/_SUCCESS', wait_s: 0}"
    place.spec.write_text(place.spec.read_text().replace("eval_days: 1", f"eval_days: 1\n  {arrival}"))
    place.hook.answers = [401]
    folders = ["--data", str(place.data), "--root", str(place.root)]
    command = [sys.executable, "-m", "sangam.pipelines.cli", "schedule", "run", str(place.spec), *folders]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=place.environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stderr
    [log] = place.folder.glob("*.log")
    [told] = place.told()
    assert (told["kind"], told["step"], told["date"]) == ("failed", "example_gen", log.stem[-len("YYYY-MM-DD") :])
    missing = f"{told['date']} ... {place.data}/{told['date']}/_SUCCESS"
    assert tells(told["reason"], "data.arrival", missing)
    assert tells(done.stderr, "data.arrival", missing)
    assert "(tried once, got: status 401)" in done.stderr
    logs = done.stderr + "".join(path.read_text() for path in place.root.rglob("*.log"))
    assert "event=alert_not_sent kind=failed" in logs
    assert "s3cret" not in logs
    assert KEY not in logs
