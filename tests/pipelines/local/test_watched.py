"""Whatever keeps a run's own process busy, a signal ends it in time, and a summary says so."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.paths import REPOSITORY
from tests.pipelines.processes import is_running
from tests.trainer_module.launch.launched_job import wait_until

PROMISED_S = 2.0
SLACK_S = 25.0
"""For a machine that is busy with other tests; without the change a stop takes 30 s or the whole import."""

_NANOSLEEP, _CLOCK_NANOSLEEP = 35, 230
"""Numbers of system calls."""

PROGRAM = """
import ctypes, subprocess, sys
from pathlib import Path
from rich.console import Console
from sangam.pipelines.local.request import check_request
from sangam.components.record.run import Step
from sangam.components.processes.stopping import StopSignals
from sangam.pipelines.local.watched import watched
from sangam.schemas.loading import load_spec
from tests.pipelines.local.sample_run import SPEC

root = Path(sys.argv[1])
request = check_request(load_spec(SPEC), "2024-03-07", root / "data", root / "root")

def work(journal):
    run = root / "root" / "runs" / "one"
    (run / "logs").mkdir(parents=True)
    journal.opened(run, "c0ffee")
    journal.step_started("example_gen")
    journal.step_ended(Step("example_gen", "cached", 1.0, 5))
    journal.step_started("transform")
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with StopSignals():
        print(child.pid, flush=True)
        # As an import of a large library does: Python runs nothing else meanwhile, no handler of a signal either.
        ctypes.PyDLL(None).sleep(60)

ended = watched(request, Console(), work)
print(ended.exit_code, ended.path)
"""


@pytest.mark.processes
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_deaf_is_stopped_in_time_and_leaves_its_summary(tmp_path: Path, signum: signal.Signals) -> None:
    (tmp_path / "data").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    child = int(process.stdout.readline())
    # Before, Python would still handle a signal.
    wait_until(lambda: _is_asleep(psutil.Process(child).ppid()), 60, "it is deaf")
    started = time.monotonic()
    # As Ctrl-C does, to the whole group; as `kill` does, to the one process that the user knows.
    if signum == signal.SIGINT:
        os.killpg(process.pid, signum)
    else:
        process.send_signal(signum)
    out, _ = process.communicate(timeout=120)
    assert time.monotonic() - started < PROMISED_S + SLACK_S
    path = tmp_path / "root" / "runs" / "one" / "summary.json"
    assert out.splitlines() == ["stopping", f"{128 + signum} {path}"]
    summary = json.loads(path.read_text())
    assert (summary["status"], summary["error"]) == ("stopped", f"stopped by {signum.name}")
    assert (summary["failed_step"], summary["git_commit"]) == ("transform", "c0ffee")
    assert {name: step["state"] for name, step in summary["steps"].items()} == {
        "example_gen": "cached",
        "transform": "stopped",
    }
    assert not is_running(child)


def _is_asleep(process: int) -> bool:
    """Returns whether a process is in C's `sleep`."""
    call, *_ = Path(f"/proc/{process}/syscall").read_text().split()
    return call in (str(_NANOSLEEP), str(_CLOCK_NANOSLEEP))
