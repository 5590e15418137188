"""Memory of a process and its descendants."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from sangam.components.processes.memory import PeakMemory, tree_memory_bytes

MIB = 2**20
# A shell between us and the process that holds the memory: grandchildren count too.
PROGRAM = f"import time; held = bytearray(b'x') * (100 * {MIB}); print('held', flush=True); time.sleep(60)"
HOLD = f'{shlex.quote(sys.executable)} -c "{PROGRAM}"; true'


@pytest.fixture
def grandchild_of_100_mib() -> Iterator["subprocess.Popen[bytes]"]:
    shell = subprocess.Popen(["sh", "-c", HOLD], stdout=subprocess.PIPE, start_new_session=True)
    assert shell.stdout
    assert shell.stdout.readline() == b"held\n"
    yield shell
    if shell.returncode is None:
        os.killpg(shell.pid, 9)
    shell.communicate()


def test_descendants_in_other_sessions_count(grandchild_of_100_mib: "subprocess.Popen[bytes]") -> None:
    assert tree_memory_bytes(os.getpid()) > 100 * MIB


def test_a_process_that_is_gone_has_none() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert tree_memory_bytes(gone.pid) == 0


def test_a_peak_outlives_what_made_it(grandchild_of_100_mib: "subprocess.Popen[bytes]") -> None:
    with PeakMemory(grandchild_of_100_mib.pid, interval_s=0.01) as memory:
        deadline = time.monotonic() + 60
        while memory.peak_bytes < 100 * MIB:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(grandchild_of_100_mib.pid, 9)
        grandchild_of_100_mib.wait()
    assert memory.peak_bytes > 100 * MIB
