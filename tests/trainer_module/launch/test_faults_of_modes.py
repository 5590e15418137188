"""What may befall a job with parameter servers besides a killed process: a clear end or a recovery, nothing left.

A fault is tried in the modes whose code it meets, a loss too many in one mode; killed processes are in
`parameter_server.test_launched`, faults of jobs in step in `test_launcher` and `loop.test_resume`.
"""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.spec import RankerSpec
from tests.errors import mentions, tells
from tests.fakes import bad_disk
from tests.trainer_module.launch.launched_job import (
    failure,
    group_of,
    last_step,
    launch,
    rank_process,
    wait_for_step,
    wait_until,
)
from tests.trainer_module.sample_job import write_examples, write_job
from tests.trainer_module.trained_examples import (
    assert_trained_on_each_example_once_an_epoch,
    counted_ids,
    counting,
    occurrences,
    report_of,
)

pytestmark = pytest.mark.processes

EPOCHS = 6
EVERY = 20
HEARTBEAT_S = 20
"""Longer than a busy machine takes between two beats of a start."""
SLACK_S = 30
"""To notice, and to end what is left."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


def _spec(kind: str, **changes: Any) -> RankerSpec:
    settings = {"epochs": EPOCHS, "checkpoint": {"every_steps": EVERY, "keep": 2}, **changes}
    return counting(sync={"kind": kind, "staleness": 1}, parameter_servers=1, **settings)


def _lines(job_file: Path) -> list[dict[str, Any]]:
    file = job_file.parent / "logs" / "progress.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _losses(job_file: Path) -> list[str]:
    """Returns what the job says of the processes that it has lost."""
    return [line["says"] for line in _lines(job_file) if "retry" in line]


def _step(job_file: Path) -> int:
    return max((line["step"] for line in _lines(job_file) if "step" in line), default=0)


def _let_raise(job_file: Path, rank: int) -> Path:
    """Makes a rank's next heartbeat raise FileNotFoundError; returns what to remove for it to succeed again."""
    file = job_file.parent / "logs" / f"heartbeat-{rank}"
    file.unlink()
    file.symlink_to(job_file.parent / "gone" / "heartbeat")
    return file


def _raise_once(job_file: Path, rank: int) -> None:
    culprit = _let_raise(job_file, rank)
    wait_until(lambda: _losses(job_file), 30, "the loss was noticed")
    culprit.unlink()
    assert mentions(_losses(job_file)[0], f"rank {rank} failed (exit code 1)")
    log = (job_file.parent / "launch.log").read_text()
    assert tells(log, "training", f"rank-{rank} ended with code 1")
    assert mentions(log, f"FileNotFoundError ... heartbeat-{rank}")


def _stop_and_time(leader: int, rank: int) -> float:
    rank_process(leader, rank).send_signal(signal.SIGSTOP)
    return time.monotonic()


@pytest.mark.long
def test_a_stale_job_ends_with_the_name_of_a_rank_that_is_stuck_once_too_often(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    """Ranks wait for each other in every step: the one that keeps them waiting must be named, not the first of them."""
    spec = _spec("stale", heartbeat_timeout_s=HEARTBEAT_S, retries=0)
    job_file = write_job(tmp_path, spec, files, is_exported=False)
    launched = launch(job_file)
    wait_for_step(job_file, EVERY)
    stopped = _stop_and_time(launched.pid, 1)
    assert launched.wait(HEARTBEAT_S + SLACK_S) == ExitCode.FAILED
    assert time.monotonic() - stopped > HEARTBEAT_S - 2
    assert tells(failure(job_file), "training", f"rank-1 ... (cluster.heartbeat_timeout_s is {HEARTBEAT_S})")
    assert group_of(launched.pid) == []


@pytest.mark.long
def test_a_shadow_job_recovers_from_a_rank_that_raises_and_one_that_is_stuck(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    """Ranks at their own pace wait at pauses alone, and threads that average live on: a rank must end with them."""
    job_file = write_job(tmp_path, _spec("shadow", heartbeat_timeout_s=HEARTBEAT_S), files, is_exported=False)
    launched = launch(job_file)
    wait_for_step(job_file, EVERY)
    _raise_once(job_file, 1)
    wait_for_step(job_file, last_step(job_file) + EVERY)
    _stop_and_time(launched.pid, 1)
    wait_until(lambda: len(_losses(job_file)) == 2, HEARTBEAT_S + SLACK_S, "the rank was found to be stuck")
    assert mentions(_losses(job_file)[1], "rank 1 hangs")
    assert launched.wait(200) == ExitCode.DONE, failure(job_file)
    assert group_of(launched.pid) == []
    assert report_of(tmp_path)["sync"]["kind"] == "shadow"
    assert_trained_on_each_example_once_an_epoch(tmp_path, files, EPOCHS)


def test_a_job_trains_on_while_its_disk_is_full_or_slow_is_stopped_meanwhile_and_goes_on(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    """Servers write rows alike in every mode. Where ranks have their own pace, a checkpoint under way moves pauses."""
    job_file, checkpoints = write_job(tmp_path, _spec("async"), files, is_exported=False), tmp_path / "checkpoints"
    disk = bad_disk.environment(checkpoints)
    launched = launch(job_file, disk)
    wait_for_step(job_file, EVERY)
    bad_disk.begin(checkpoints, "full")
    log = job_file.parent / "logs" / "parameter-server-0.log"
    wait_until(lambda: "No space left on device" in log.read_text(), 60, "the server was refused")
    assert mentions(log.read_text(), "event=checkpoint_retried path= ... No space left on device")
    before, reached = last_step(job_file), _step(job_file)
    wait_until(lambda: _step(job_file) > reached, 30, "training went on")
    launched.send_signal(signal.SIGTERM)
    assert launched.wait(30) == ExitCode.TERMINATED
    assert group_of(launched.pid) == []
    assert last_step(job_file) == before

    bad_disk.end(checkpoints, "full")
    bad_disk.begin(checkpoints, "slow")
    launched = launch(job_file, disk)
    wait_for_step(job_file, before + 1)
    bad_disk.end(checkpoints, "slow")
    assert launched.wait(200) == ExitCode.DONE, failure(job_file)
    assert group_of(launched.pid) == []
    assert report_of(tmp_path)["resumed_from_step"] == [before]
    assert_trained_on_each_example_once_an_epoch(tmp_path, files, EPOCHS)


@pytest.mark.long
def test_a_job_of_which_one_rank_has_no_example_ends_after_each_was_trained_on(tmp_path: Path) -> None:
    """In step, an empty batch takes part in the sums; at their own pace, ranks wait until the last has trained."""
    examples, epochs = 10, 3
    files = write_examples(tmp_path / "data", num_examples=examples)
    kinds = {"stale": {"data_workers": 0}, "async": {"data_workers": 1}}
    launched = {
        kind: launch(
            write_job(tmp_path / kind, _spec(kind, epochs=epochs, retries=0, **more), files, is_exported=False)
        )
        for kind, more in kinds.items()
    }
    for kind, process in launched.items():
        assert process.wait(120) == ExitCode.DONE, failure(tmp_path / kind / "job.json")
        assert group_of(process.pid) == []
        assert [epoch["examples"] for epoch in report_of(tmp_path / kind)["epochs"]] == [examples] * epochs
        assert counted_ids(tmp_path / kind) == {key: epochs * count for key, count in occurrences(files).items()}
