"""One run at a time on a root."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sangam.components.record.lock import RootInUse, locked
from tests.paths import REPOSITORY

HOLD = (
    "import sys, time\nfrom pathlib import Path\nfrom sangam.components.record.lock import locked\n"
    "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
)


def test_a_second_run_is_told_which_process_holds_the_root(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        told = f"--root: another run is using it .*held by process {holder.pid} on {socket.gethostname()}"
        with pytest.raises(RootInUse, match=told), locked(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()


def test_kill_9_frees_the_root(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE)
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with locked(tmp_path):
        pass


def test_no_child_keeps_the_root_locked(tmp_path: Path) -> None:
    with locked(tmp_path):
        started = subprocess.Popen(["sleep", "60"], close_fds=False)
        runs, says = os.pipe()
        forked = os.fork()
        if forked == 0:
            try:
                os.write(says, b"x")
                signal.pause()
            finally:
                # The child must not go on as a second pytest; below, its os.kill(0) would kill the whole process group.
                os._exit(1)
    try:
        assert os.read(runs, 1) == b"x"
        with locked(tmp_path):
            pass
    finally:
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)
        started.kill()
        started.wait()
        os.close(runs)
        os.close(says)


def test_a_root_can_be_locked_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), locked(tmp_path):
        raise ValueError("inside")
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"{os.getpid()} on {socket.gethostname()} since 2")


def test_renewing_gives_the_file_a_new_time_and_tells_of_a_lock_that_is_lost(tmp_path: Path) -> None:
    file = tmp_path / ".lock"
    with locked(tmp_path) as renew:
        os.utime(file, (0, 0))
        renew()
        assert file.stat().st_mtime > 0
    # As for a file of NFS after its lock was taken: nothing can be written to it any more.
    with pytest.raises(RootInUse, match=r"--root: the lock is lost \(got Bad file descriptor for .*\.lock\)"):
        renew()
