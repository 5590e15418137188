"""A group of processes: how its leader ends, where its output goes, and that nothing of it is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sangam.components.processes.group import ProcessGroup, run_group
from tests.paths import REPOSITORY
from tests.pipelines.processes import is_running

LEADER = "tests.components.processes.fake_leader"


def child_of(folder: Path) -> int:
    end = time.monotonic() + 60
    while not (folder / "child").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return int((folder / "child").read_text())


def is_gone(pid: int) -> bool:
    end = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_running(pid)


def test_the_exit_code_is_the_leaders_and_its_output_is_added_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("of before\n")
    assert run_group([LEADER, str(tmp_path), "exits", "7"], log=log) == 7
    assert log.read_text() == "of before\nsaid by the leader\n"


def test_a_group_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    with ProcessGroup([LEADER, str(tmp_path), "waits"], log=tmp_path / "run.log") as group:
        child = child_of(tmp_path)
        assert group.exit_code() is None
        assert group.wait_for(0.05) is None
        assert os.getpgid(child) == group.pid
    assert group.exit_code() == -signal.SIGTERM
    assert group.wait_for(0.05) == -signal.SIGTERM
    assert is_gone(child)


def test_who_does_not_listen_is_killed_after_the_grace(tmp_path: Path) -> None:
    group = ProcessGroup([LEADER, str(tmp_path), "is-deaf"], log=tmp_path / "run.log", grace_s=0.3)
    child = child_of(tmp_path)
    group.end()
    assert group.exit_code() == -signal.SIGKILL
    assert is_gone(child)


def test_what_a_leader_leaves_behind_is_killed(tmp_path: Path) -> None:
    with ProcessGroup([LEADER, str(tmp_path), "waits"], log=tmp_path / "run.log") as group:
        child = child_of(tmp_path)
        os.kill(group.pid, signal.SIGKILL)
        assert group.wait() == -signal.SIGKILL
        assert is_running(child)
    assert is_gone(child)


@pytest.mark.parametrize("ends_with_parent", [True, False])
def test_the_leader_may_end_with_the_process_that_started_it(ends_with_parent: bool, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\nfrom sangam.components.processes.group import ProcessGroup\n"
        f"group = ProcessGroup([{LEADER!r}, {str(tmp_path)!r}, 'waits'], ends_with_parent={ends_with_parent})\n"
        "print(group.pid, flush=True)\ngroup.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    leader = int(parent.stdout.readline())
    child = child_of(tmp_path)
    try:
        parent.kill()
        parent.wait()
        assert is_gone(leader) if ends_with_parent else is_running(leader)
    finally:
        os.kill(child, signal.SIGKILL)
        if is_running(leader):
            os.kill(leader, signal.SIGKILL)
        parent.stdout.close()
