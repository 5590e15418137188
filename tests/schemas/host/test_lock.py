"""A lock is one file's, of one process; neither links, readers nor removed files get around it."""

import fcntl
import logging
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.host import lock
from sangam.schemas.host.lock import LOCK_FILE, LockHeld, acquire, holder_here, is_locked, locked
from tests.errors import tells


def test_a_link_is_not_followed_and_its_target_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / LOCK_FILE).symlink_to("precious")
    with pytest.raises(UserError) as error:
        acquire(tmp_path / LOCK_FILE, "--root")
    assert tells(str(error.value), "--root", f"{tmp_path / LOCK_FILE}: is a link to precious")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not is_locked(tmp_path / LOCK_FILE)
    assert holder_here(tmp_path / LOCK_FILE) is None


def test_a_second_name_of_another_file_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    os.link(tmp_path / "precious", tmp_path / LOCK_FILE)
    with pytest.raises(UserError, match="2 names"):
        acquire(tmp_path / LOCK_FILE, "--root")
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK_FILE)
    with pytest.raises(UserError, match="no file of its own"):
        acquire(tmp_path / LOCK_FILE, "--root")
    assert holder_here(tmp_path / LOCK_FILE) is None


@pytest.mark.parametrize("is_replaced", [False, True])
def test_renewing_tells_of_a_file_that_was_removed_or_replaced(tmp_path: Path, is_replaced: bool) -> None:
    file = tmp_path / LOCK_FILE
    with locked(file, "--root") as held:
        file.unlink()
        if is_replaced:
            second = acquire(file, "--root")
        with pytest.raises(LockHeld, match=r"the lock is lost \(got it was removed or replaced for "):
            held.renew()
    if is_replaced:
        second.renew()
        second.release()


def test_a_waiting_process_locks_the_file_that_is_there_at_last(tmp_path: Path) -> None:
    file = tmp_path / LOCK_FILE
    first = acquire(file, "--root")

    def replace() -> None:
        time.sleep(0.3)
        file.unlink()
        first.release()

    thread = threading.Thread(target=replace)
    thread.start()
    with locked(file, "--root", wait_s=60) as held:
        thread.join()
        held.renew()
        assert is_locked(file)


def test_waiting_has_an_end_and_names_the_holder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, begun = tmp_path / LOCK_FILE, time.monotonic()
    with locked(file, "DIR") as held:
        holder = f"{os.getpid()} on {socket.gethostname()} since {held.since}"
        with (
            caplog.at_level(logging.WARNING),
            pytest.raises(LockHeld) as error,
            locked(file, "DIR", "another process changes its versions", wait_s=0.3),
        ):
            pass
        assert time.monotonic() - begun >= 0.3
        assert holder_here(file) == os.getpid()
    assert tells(str(error.value), "DIR", f"for 0.3 s (got {tmp_path}, held by process {holder})")
    assert [record.getMessage() for record in caplog.records] == [
        f"DIR: another process changes its versions (got process {holder}); waits up to 0.3 s for its lock"
    ]


def test_what_another_program_wrote_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text("\x1b[31m1 on x since y\n")
    fd = os.open(tmp_path / LOCK_FILE, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(LockHeld, match="held by process unknown"):
        acquire(tmp_path / LOCK_FILE, "--root")
    os.close(fd)


@pytest.mark.parametrize(
    ("folder_mode", "mode"), [(0o755, 0o600), (0o700, 0o600), (0o775, 0o660), (0o777, 0o666), (0o750, 0o600)]
)
def test_only_those_who_may_write_into_the_folder_may_open_it(tmp_path: Path, folder_mode: int, mode: int) -> None:
    tmp_path.chmod(folder_mode)
    (tmp_path / LOCK_FILE).touch(0o644)
    with locked(tmp_path / LOCK_FILE, "--root"):
        assert (tmp_path / LOCK_FILE).stat().st_mode & 0o777 == mode


def test_who_may_not_open_it_still_sees_whether_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's list stands in for the file: the superuser, who may run this, may open any file."""
    file = tmp_path / LOCK_FILE
    with locked(file, "--root"):
        assert lock._is_listed(file)
        monkeypatch.setattr(lock, "_LOCKS", tmp_path / "none")
        assert not lock._is_listed(file)
        monkeypatch.undo()
    assert not lock._is_listed(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser may become another user")
def test_a_reader_of_the_folder_cannot_hold_up_its_writers() -> None:
    with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / LOCK_FILE, "--root"):
        Path(folder).chmod(0o755)
        file = Path(folder) / LOCK_FILE
        child = os.fork()
        if child == 0:
            code = 9
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                try:
                    os.open(file, os.O_RDONLY)
                except PermissionError:
                    code = 0 if is_locked(file) else 8
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
