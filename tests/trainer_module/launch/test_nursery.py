"""Forked processes of a job are children of whoever asked for them, run as modules do, and end with it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sangam.trainer_module.launch.children import Child, environment_of_all
from sangam.trainer_module.launch.nursery import Forked, Nursery
from tests.trainer_module.launch.launched_job import wait_until
from tests.trainer_module.sample_job import declared, job

pytestmark = pytest.mark.processes

_SHOWN = "tests.trainer_module.launch.fake_forked"


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    log = tmp_path_factory.mktemp("nursery") / "nursery.log"
    with Nursery(log, {**environment_of_all(), "OF_ALL": "1"}) as begun:
        yield begun


def _start(nursery: Nursery, log: Path, *arguments: str, **environment: str) -> Forked:
    forked = nursery.start([_SHOWN, *arguments], environment, log)
    assert forked is not None
    return forked


def test_a_forked_process_is_a_child_with_its_own_arguments_environment_and_log(
    nursery: Nursery, tmp_path: Path
) -> None:
    log = tmp_path / "one.log"
    assert _start(nursery, log, "tell", "", "x y", OF_ONE="2").wait(60) == 7
    assert log.read_text().split("|") == ["__main__", str(os.getpid()), "tell,,x y", "1", "2", "tensorflow\n"]


def test_an_error_of_a_forked_process_is_in_its_log_and_its_exit_code(nursery: Nursery, tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    assert _start(nursery, log, "fail").wait(60) == 1
    assert log.read_text().rstrip().endswith("ValueError: as told")


def test_a_forked_process_shows_what_it_runs_and_dies_by_a_signal(nursery: Nursery, tmp_path: Path) -> None:
    forked = _start(nursery, tmp_path / "one.log", "stay", str(os.getpid()))
    process = psutil.Process(forked.pid)
    wait_until(lambda: process.cmdline()[1:] == ["-m", _SHOWN, "stay", str(os.getpid())], 60, "its words are shown")
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.05)
    forked.send_signal(signal.SIGTERM)
    assert forked.wait(10) == -signal.SIGTERM == forked.poll()


@pytest.mark.long
def test_where_the_nursery_is_lost_a_process_starts_by_itself(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    environment = {**environment_of_all(), "PYTHONHOME": str(tmp_path)}  # Where there is no Python.
    with Nursery(tmp_path / "nursery.log", environment) as lost:
        child = Child(
            job(tmp_path, declared(), ()),
            "export",
            ["sangam.trainer_module.export", "none", str(os.getpid())],
            nursery=lost,
        )
        child.reap(60)
    assert "Python" in (tmp_path / "nursery.log").read_text()
    assert child.exit_code() == 1
    assert "No such file or directory: 'none'" in child.log.read_text()


def test_a_killed_parent_takes_the_nursery_with_it(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from sangam.trainer_module.launch.nursery import Nursery\n"
        "log = pathlib.Path(sys.argv[1])\n"
        "nursery = Nursery(log, dict(os.environ))\n"
        f"forked = nursery.start(['{_SHOWN}', 'stay', str(os.getpid())], {{}}, log)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "log")], start_new_session=True)
    assert parent.wait(60) == -signal.SIGKILL
    group = [process for process in psutil.process_iter() if _group(process.pid) == parent.pid]
    assert psutil.wait_procs(group, 10)[1] == []


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0
