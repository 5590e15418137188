"""A training job as processes: whatever ends it, nothing is left running. What it learns is in `loop.test_resume`."""

import contextlib
import signal
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.monitoring import on_this_machine
from sangam.schemas.contracts.training_job import read_job
from sangam.schemas.contracts.training_job import write_job as write_job_file
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.monitoring import Monitoring
from tests.errors import tells
from tests.odd_shell import ODD_SHELL
from tests.trainer_module.launch.launched_job import (
    failure,
    group_of,
    launch,
    launch_as_users_do,
    process_with,
    rank_process,
    wait_for_training,
    wait_until,
)
from tests.trainer_module.sample_job import write_examples, write_job
from tests.trainer_module.trained_examples import counting

pytestmark = pytest.mark.processes

HOROVOD = {"kind": "sync", "transport": "horovod"}
"""The other tests of launched jobs have the default, shared memory."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


def _lean(**changes: Any) -> RankerSpec:
    """Returns a ranker that is soon traced, and writes hardly a checkpoint."""
    return counting(**{"checkpoint": {"every_steps": 10_000, "keep": 1}, **changes})


def _monitored(job_file: Path, port: int = 0) -> Path:
    """Has the job's processes serve metrics; returns the folder of their files."""
    targets = job_file.parent / "metrics"
    told = on_this_machine(Monitoring(port=port), targets, "sangam-trainer")
    write_job_file(job_file, read_job(job_file).model_copy(update={"monitoring": told}))
    return targets


def test_a_local_job_listens_on_loopback_alone_starts_quickly_and_stops_whole(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    """Ranks listen while they find each other: they are looked at from their start on. The shell is an odd one."""
    job_file = write_job(tmp_path, _lean(ranks=2, sync=HOROVOD, data_workers=2, epochs=100_000), files)
    targets = _monitored(job_file)
    launched = launch_as_users_do(job_file, ODD_SHELL)
    listening: dict[str, set[str]] = {}

    def look() -> bool:
        for process in group_of(launched.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                name = _name(process)
                for connection in process.net_connections("inet"):
                    if connection.status == psutil.CONN_LISTEN:
                        listening.setdefault(name, set()).add(connection.laddr.ip)
        return (tmp_path / "logs" / "progress.jsonl").exists()

    wait_until(look, 180, "training has started")
    loaded = {_name(process): _packages_mapped_by(process) for process in group_of(launched.pid)}
    assert len(group_of(launched.pid)) == len(list(targets.iterdir())) + 2 == 7
    launched.terminate()
    assert launched.wait(30) == 143
    assert group_of(launched.pid) == []
    assert list(targets.iterdir()) == []
    assert {"sangam.trainer_module.launch.launcher", "dispatcher", "data-worker-0", "data-worker-1"} <= listening.keys()
    assert set().union(*listening.values()) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, listening
    assert "listens to other machines" not in (tmp_path / "launch.log").read_text()
    forked = {"sangam.trainer_module", "dispatcher", "data-worker-0", "data-worker-1"}
    assert loaded.keys() == {"sangam.trainer_module.launch.launcher", "sangam.trainer_module.launch.nursery"} | forked
    assert "tensorflow" in loaded["sangam.trainer_module"]
    assert not set().union(*loaded.values()) & {"pandas", "scipy", "matplotlib"}


def _packages_mapped_by(process: psutil.Process) -> set[str]:
    """Returns the packages whose native libraries a process has loaded."""
    paths = [mapped.path.partition("/site-packages/")[2] for mapped in process.memory_maps()]
    return {path.split("/")[0] for path in paths if path}


def _name(process: psutil.Process) -> str:
    words = process.cmdline() or [""]  # Without words it is about to begin, or to end.
    file = next((Path(word) for word in words if word.endswith(".address")), None)
    return file.stem if file else words[words.index("-m") + 1] if "-m" in words else words[0]


def test_a_port_of_metrics_in_use_ends_a_job_before_it_starts_anything(tmp_path: Path, files: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        job_file = write_job(tmp_path, _lean(ranks=2, sync=HOROVOD, data_workers=0), files)
        _monitored(job_file, port - 1)
        launched = launch(job_file)
        assert launched.wait(60) == ExitCode.MISTAKE
    assert tells(failure(job_file), "monitoring.port", f"(got 127.0.0.1:{port}: Address already in use)")
    assert "Traceback" not in (tmp_path / "launch.log").read_text()
    assert not list((tmp_path / "logs").glob("rank-*"))


def test_a_killed_launcher_leaves_no_process(tmp_path: Path, files: tuple[str, ...]) -> None:
    job_file = write_job(tmp_path, _lean(ranks=2, sync=HOROVOD, data_workers=1, epochs=100_000), files)
    launched = launch(job_file)
    wait_for_training(job_file)
    wait_until(lambda: len(group_of(launched.pid)) == 6, 30, "launcher, nursery, pool and ranks run")
    launched.kill()
    assert launched.wait(30) == -9
    wait_until(lambda: group_of(launched.pid) == [], 60, "the group is empty")


@pytest.mark.long
@pytest.mark.parametrize("transport", ["tcp", pytest.param("horovod", marks=pytest.mark.long)])
def test_a_killed_rank_ends_a_job_without_retries_with_its_name_and_its_log(
    tmp_path: Path, files: tuple[str, ...], transport: str
) -> None:
    """The other rank fails, too, and must not be named; in shared memory it waits: `loop.test_resume`."""
    sync = {"kind": "sync", "transport": transport}
    job_file = write_job(tmp_path, _lean(ranks=2, sync=sync, data_workers=0, epochs=100_000, retries=0), files)
    launched = launch(job_file)
    wait_for_training(job_file)
    rank_process(launched.pid, 1).kill()
    assert launched.wait(60) == 1
    assert tells(failure(job_file), "training", "rank-1 ... SIGKILL")
    assert "start rank=1 ranks=2" in failure(job_file)
    assert group_of(launched.pid) == []


@pytest.mark.long
@pytest.mark.parametrize("transport", ["auto", "horovod"])
def test_a_rank_that_hangs_is_noticed_and_not_taken_for_one_that_waits_for_it(
    tmp_path: Path, files: tuple[str, ...], transport: str
) -> None:
    limits = {"epochs": 100_000, "retries": 0, "heartbeat_timeout_s": 20, "deadline_s": 300}
    ranker = _lean(ranks=2, sync={"kind": "sync", "transport": transport}, data_workers=0, **limits)
    job_file = write_job(tmp_path, ranker, files)
    launched = launch(job_file)
    wait_for_training(job_file)
    rank_process(launched.pid, 1).send_signal(signal.SIGSTOP)
    assert launched.wait(20 + 30) == 1
    assert tells(failure(job_file), "training", "rank-1 ... no progress")
    assert group_of(launched.pid) == []


@pytest.mark.long
def test_a_job_past_its_deadline_is_ended(tmp_path: Path, files: tuple[str, ...]) -> None:
    ranker = _lean(ranks=1, data_workers=0, epochs=100_000, deadline_s=12, heartbeat_timeout_s=12)
    job_file = write_job(tmp_path, ranker, files)
    launched = launch(job_file)
    assert launched.wait(60) == 1
    assert tells(failure(job_file), "training", "12 s ... cluster.deadline_s")
    assert group_of(launched.pid) == []


@pytest.mark.long
def test_a_lost_data_worker_ends_a_job_without_retries(tmp_path: Path, files: tuple[str, ...]) -> None:
    job_file = write_job(tmp_path, _lean(ranks=1, data_workers=1, epochs=100_000, retries=0), files)
    launched = launch(job_file)
    wait_for_training(job_file)
    process_with(launched.pid, "data-worker-0.address").kill()
    assert launched.wait(60) == 1
    assert tells(failure(job_file), "training", "data-worker-0 ... SIGKILL")
    assert group_of(launched.pid) == []
