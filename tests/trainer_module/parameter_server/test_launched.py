"""Jobs with parameter servers as processes: whatever is killed, each example counts once and nothing is left."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.spec import RankerSpec
from tests.errors import mentions
from tests.trainer_module.launch.launched_job import (
    group_of,
    last_step,
    launch,
    process_with,
    rank_process,
    wait_for_step,
)
from tests.trainer_module.sample_job import NUM_EXAMPLES, read_dense, read_rows, write_examples, write_job
from tests.trainer_module.trained_examples import counted_ids, counting, occurrences, report_of

pytestmark = pytest.mark.processes

EPOCHS = 3
EVERY = 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


def _spec(kind: str, *, ranks: int, servers: int, **changes: Any) -> RankerSpec:
    return counting(
        sync={"kind": kind, "staleness": 0 if kind == "stale" else 2},
        parameter_servers=servers,
        ranks=ranks,
        epochs=EPOCHS,
        batch_size_per_rank=32 // ranks,
        checkpoint={"every_steps": EVERY, "keep": 2},
        **changes,
    )


def _assert_ends(launched: "subprocess.Popen[bytes]", job_file: Path) -> None:
    assert launched.wait(200) == ExitCode.DONE, (job_file.parent / "launch.log").read_text()[-4000:]
    assert group_of(launched.pid) == []


def _assert_each_example_counted_once_an_epoch(directory: Path, files: tuple[str, ...]) -> None:
    assert [epoch["examples"] for epoch in report_of(directory)["epochs"]] == [NUM_EXAMPLES] * EPOCHS
    assert counted_ids(directory) == {key: EPOCHS * count for key, count in occurrences(files).items()}


def test_after_a_killed_rank_and_a_killed_server_a_stale_job_ends_with_the_same_bits(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    spec = _spec("stale", ranks=1, servers=1)
    undisturbed = write_job(tmp_path / "undisturbed", spec, files, is_exported=False)
    _assert_ends(launch(undisturbed), undisturbed)
    job_file = write_job(tmp_path / "disturbed", spec, files, is_exported=False)
    launched = launch(job_file)
    wait_for_step(job_file, EVERY)
    rank_process(launched.pid, 0).kill()
    first = last_step(job_file)
    wait_for_step(job_file, first + EVERY)
    process_with(launched.pid, "sangam.trainer_module.parameter_server").kill()
    _assert_ends(launched, job_file)
    assert len(report_of(tmp_path / "disturbed")["resumed_from_step"]) == 2
    log = (job_file.parent / "launch.log").read_text()
    assert mentions(log, "retry=1 of=2 ... rank 0 lost (signal 9)")
    assert mentions(log, "retry=2 of=2 ... parameter server 0 lost (signal 9)")
    for group in ("adagrad_4", "adagrad_8"):
        expected = read_rows(tmp_path / "undisturbed" / "final", group)
        for array, as_expected in zip(read_rows(tmp_path / "disturbed" / "final", group), expected, strict=True):
            np.testing.assert_array_equal(array, as_expected)
    expected_dense = read_dense(tmp_path / "undisturbed" / "final")
    for name, vector in read_dense(tmp_path / "disturbed" / "final").items():
        np.testing.assert_array_equal(vector, expected_dense[name], err_msg=name)
    _assert_each_example_counted_once_an_epoch(tmp_path / "disturbed", files)


@pytest.mark.long
def test_ranks_at_their_own_pace_train_on_each_example_once_though_a_rank_and_a_server_are_killed(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    """With a pool, which gives each batch to whichever rank asks; a rank that averages is lost in
    `launch.test_faults_of_modes`."""
    spec = _spec("async", ranks=2, servers=1, data_workers=1)
    job_file = write_job(tmp_path, spec, files, is_exported=False)
    launched = launch(job_file)
    wait_for_step(job_file, EVERY)
    rank_process(launched.pid, 1).kill()
    wait_for_step(job_file, last_step(job_file) + EVERY)
    process_with(launched.pid, "sangam.trainer_module.parameter_server").kill()
    _assert_ends(launched, job_file)
    assert len(report_of(tmp_path)["resumed_from_step"]) == 2
    log = (tmp_path / "launch.log").read_text()
    assert mentions(log, "retry=1 of=2 ... rank 1 lost (signal 9)")
    assert mentions(log, "retry=2 of=2 ... parameter server 0 lost (signal 9)")
    _assert_each_example_counted_once_an_epoch(tmp_path, files)
    assert report_of(tmp_path)["sync"]["kind"] == "async"
