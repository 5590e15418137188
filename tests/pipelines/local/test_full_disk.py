"""Full disks are recognized in whatever words a library says it, and told with the step, the path and the sizes."""

import errno
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sangam.components.record.run import Artifact, Step
from sangam.pipelines.local.full_disk import DiskWatch, full_disk
from sangam.pipelines.local.request import RunRequest
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from tests.errors import mentions, tells
from tests.paths import REPOSITORY
from tests.pipelines.local.sample_run import SPEC
from tests.small_disk import small_disk


@pytest.fixture
def request_(tmp_path: Path) -> RunRequest:
    (tmp_path / "root").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "logs").write_bytes(bytes(3000))
    return RunRequest(load_spec(SPEC), None, str(tmp_path / "data"), tmp_path / "root")


def _watch(request: RunRequest, node: str, least_free: int = 2**30) -> DiskWatch:
    watch = DiskWatch(request.root)
    watch.node, watch.free_at_start, watch.least_free = node, 2048, least_free
    return watch


def _wrapped(error: Exception) -> Exception:
    try:
        try:
            raise error
        except Exception as inner:
            raise RuntimeError("while running 'Write'") from inner
    except RuntimeError as outer:
        return outer


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("ROOT/artifacts/transform/x/1.gz; No space left on device [while running 'Write']"),
        UserError(
            "training: rank-0 ended with code 1; the end of LOG:\nROOT/artifacts/transform/x/1.gz: No space left "
            "on device"
        ),
    ],
)
def test_the_path_is_found_in_the_words_of_libraries(request_: RunRequest, error: Exception) -> None:
    error.args = (str(error).replace("ROOT", str(request_.root)),)
    told = full_disk(_wrapped(error), request_, {}, _watch(request_, "transform", least_free=512))
    path = request_.root / "artifacts" / "transform" / "x" / "1.gz"
    assert tells(told, "transform", f"(got 512 B free at {path}, 2.05 kB ...) ... 3.00 kB ... --root")


def test_errors_of_the_system_and_of_sqlite_count_too(request_: RunRequest) -> None:
    watch = _watch(request_, "trainer")
    path = str(request_.root / "x.npy")
    assert f"free at {path}, " in str(full_disk(_wrapped(OSError(errno.ENOSPC, "full", path)), request_, {}, watch))
    told = full_disk(sqlite3.OperationalError("database or disk is full"), request_, {}, watch)
    assert f"free at {request_.root / 'artifacts' / 'trainer'}, 2.05 kB" in str(told)


def test_other_failures_are_none_unless_the_disk_was_seen_full(request_: RunRequest) -> None:
    error = UserError("training: the launcher ended with code 1")
    assert full_disk(error, request_, {}, _watch(request_, "trainer")) is None
    assert full_disk(error, request_, {}, _watch(request_, "trainer", least_free=0)) is not None


def test_the_need_is_what_the_step_wrote_before_else_the_largest_that_was_made(request_: RunRequest) -> None:
    error, watch = OSError(errno.ENOSPC, "full"), _watch(request_, "transform")
    made = request_.root / "artifacts" / "example_gen" / "examples" / "1"
    made.mkdir(parents=True)
    (made / "data").write_bytes(bytes(5 * 1024))
    steps = {"example_gen": Step("example_gen", "ran", 1.0, 0, {"examples": Artifact(str(made))})}
    assert "5.12 kB" in str(full_disk(error, request_, steps, watch))
    for output, size in (("graph", 1024), ("examples", 8 * 1024)):
        before = request_.root / "artifacts" / "transform" / output / "2"
        before.mkdir(parents=True)
        (before / "data").write_bytes(bytes(size))
    assert "9.22 kB" in str(full_disk(error, request_, steps, watch))


def test_another_disk_than_the_roots_is_told_by_itself(request_: RunRequest) -> None:
    if not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == request_.root.stat().st_dev:
        pytest.skip("needs a second disk")
    error = OSError(errno.ENOSPC, "full", "/dev/shm/beam-1")
    told = str(full_disk(error, request_, {}, _watch(request_, "transform")))
    assert mentions(told, "free at /dev/shm/beam-1) ... 3.00 kB")


@pytest.mark.processes
def test_a_disk_without_room_for_a_run_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with small_disk(tmp_path / "root", "100k") as root:
        command = [sys.executable, "-m", "tests.pipelines.local.sample_run", str(tmp_path / "data"), str(root)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert tells(done.stderr, "run", "(got ")
        assert f"free at {root}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
