"""Whatever is killed, a job goes on from its last checkpoint and ends where an undisturbed one ends."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.trainer_module.checkpoint.folder import published, step_of
from tests.errors import mentions, tells
from tests.fakes import mounted_store
from tests.trainer_module.launch.launched_job import (
    failure,
    group_of,
    last_step,
    launch,
    process_with,
    rank_process,
    wait_for_step,
    wait_until,
)
from tests.trainer_module.sample_job import (
    read_dense,
    read_rows,
    run_ranks,
    write_examples,
    write_job,
)
from tests.trainer_module.trained_examples import (
    EVERY_STEPS,
    assert_trained_on_each_example_once_an_epoch,
    counting,
    report_of,
)

pytestmark = pytest.mark.processes

TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


def _run_to_the_end(job_file: Path, environment: Mapping[str, str] = os.environ) -> None:
    _assert_ends(launch(job_file, environment), job_file.parent)


def _assert_ends(launched: "subprocess.Popen[bytes]", directory: Path) -> None:
    assert launched.wait(240) == ExitCode.DONE, (directory / "launch.log").read_text()[-4000:]
    assert len(published(directory / "checkpoints")) == 2


def test_after_a_killed_rank_and_a_killed_launcher_a_job_ends_as_if_nothing_had_been(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    ranker = counting()
    # Its noise is that of the step, whoever has made the steps before it.
    ranker = ranker.model_copy(update={"model": ranker.model.model_copy(update={"dropout": 0.1})})
    expected = run_ranks(tmp_path / "undisturbed", ranker, files)

    job_file = write_job(tmp_path / "disturbed", ranker, files, is_exported=False)
    launched = launch(job_file)
    wait_for_step(job_file, 2 * EVERY_STEPS)
    rank_process(launched.pid, 1).kill()
    first = last_step(job_file)
    wait_for_step(job_file, first + 2 * EVERY_STEPS)
    launched.kill()
    launched.wait()
    wait_until(lambda: group_of(launched.pid) == [], 60, "the group is empty")
    second = last_step(job_file)
    _run_to_the_end(job_file)

    resumed = report_of(tmp_path / "disturbed")["resumed_from_step"]
    assert len(resumed) == 2
    assert resumed[0] >= first
    assert resumed[1] == second
    assert mentions((job_file.parent / "launch.log").read_text(), "retry=1 of=2 ... rank 1 lost (signal 9)")
    losses = np.load(tmp_path / "disturbed" / "output" / "losses.npy")
    np.testing.assert_allclose(losses, expected, atol=TOLERANCE)
    for group in ("adagrad_4", "adagrad_8"):
        keys, rows = read_rows(tmp_path / "undisturbed" / "final", group)
        keys_again, rows_again = read_rows(tmp_path / "disturbed" / "final", group)
        np.testing.assert_array_equal(keys_again, keys)
        np.testing.assert_array_equal(rows_again[:, -2:].copy().view(np.int32), rows[:, -2:].copy().view(np.int32))
        np.testing.assert_allclose(rows_again[:, :-2], rows[:, :-2], atol=TOLERANCE)
    dense, dense_again = (read_dense(tmp_path / name / "final") for name in ("undisturbed", "disturbed"))
    for name, vector in dense.items():
        np.testing.assert_allclose(dense_again[name], vector, atol=TOLERANCE, err_msg=name)
    assert_trained_on_each_example_once_an_epoch(tmp_path / "disturbed", files)
    reports = [report_of(tmp_path / name) for name in ("undisturbed", "disturbed")]
    assert reports[0]["tables"] == reports[1]["tables"]
    assert [epoch["validation"] for epoch in reports[0]["epochs"]] == [
        epoch["validation"] for epoch in reports[1]["epochs"]
    ]


@pytest.mark.long
def test_with_a_pool_no_example_is_lost_or_seen_twice_when_a_worker_and_a_rank_are_killed(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    job_file = write_job(tmp_path, counting(data_workers=2), files, is_exported=False)
    launched = launch(job_file)
    wait_for_step(job_file, 2 * EVERY_STEPS)
    processes = [rank_process(launched.pid, rank).pid for rank in (0, 1)]
    process_with(launched.pid, "data-worker-0.address").kill()
    first = last_step(job_file)
    wait_for_step(job_file, first + 2 * EVERY_STEPS)
    # A lost worker is replaced; the ranks do not even notice it before the epoch's end.
    assert [rank_process(launched.pid, rank).pid for rank in (0, 1)] == processes
    rank_process(launched.pid, 0).kill()
    _assert_ends(launched, tmp_path)
    assert len(report_of(tmp_path)["resumed_from_step"]) == 1
    said = [line for line in (tmp_path / "logs" / "progress.jsonl").read_text().splitlines() if "retry" in line]
    assert "data worker 0 lost (signal 9)" in said[0]
    assert "rank 0 lost (signal 9)" in said[1]
    assert "(attempt 3 of 3)" in said[1]
    assert_trained_on_each_example_once_an_epoch(tmp_path, files)
    # The pool hands out batches in another order each time: the same examples, another path to the same loss.
    losses = np.load(tmp_path / "output" / "losses.npy")
    assert abs(losses[-30:].mean(0) - losses[-60:-30].mean(0)).max() < 0.2


@pytest.mark.long
def test_a_job_goes_on_with_another_number_of_ranks(tmp_path: Path, files: tuple[str, ...]) -> None:
    job_file = write_job(tmp_path, counting(ranks=1), files, is_exported=False)
    launched = launch(job_file)
    wait_for_step(job_file, 3 * EVERY_STEPS)
    launched.send_signal(signal.SIGTERM)
    assert launched.wait(30) == 143
    step = last_step(job_file)
    _run_to_the_end(write_job(tmp_path, counting(), files, is_exported=False))
    report = report_of(tmp_path)
    assert (report["ranks"], report["resumed_from_step"]) == (2, [step])
    assert_trained_on_each_example_once_an_epoch(tmp_path, files)


@pytest.mark.long
def test_a_damaged_checkpoint_is_passed_over_by_all_ranks_on_a_store_without_renames_of_folders_too(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    store = mounted_store.environment(tmp_path)
    job_file = write_job(tmp_path, counting(), files, is_exported=False)
    launched = launch(job_file, store)
    wait_until(lambda: len(published(tmp_path / "checkpoints")) == 2, 90, "two checkpoints")
    os.killpg(launched.pid, signal.SIGKILL)
    launched.wait()
    before, last = published(tmp_path / "checkpoints")
    # Rank 0 does not read this file.
    damaged = last / "rank-00001.adagrad_8.rows.npy"
    damaged.write_bytes(damaged.read_bytes()[:-4] + b"????")
    _run_to_the_end(job_file, store)
    report = report_of(tmp_path)
    assert report["resumed_from_step"] == [step_of(before)]
    assert report["checkpoint"]["passed_over"] == [f"damaged-{last.name}"]
    assert (tmp_path / "checkpoints" / f"damaged-{last.name}" / damaged.name).exists()
    log = (tmp_path / "logs" / "rank-0.log").read_text()
    assert f"event=checkpoint_passed_over path={last}" in log
    assert tells(log, "reason: rank 1", str(damaged))
    lines = (tmp_path / "logs" / "progress.jsonl").read_text().splitlines()
    assert any("damaged checkpoint" in line and f"step {step_of(before):,}" in line for line in lines)
    assert_trained_on_each_example_once_an_epoch(tmp_path, files)


def test_a_training_that_diverges_is_not_tried_again(tmp_path: Path, files: tuple[str, ...]) -> None:
    diverging = counting(ranks=1, dense_optimizer={"kind": "sgd", "learning_rate": 1e30}, max_skipped_steps=2)
    assert launch(write_job(tmp_path, diverging, files)).wait(60) == ExitCode.MISTAKE
    assert tells(failure(tmp_path / "job.json"), "training", "not finite 3 steps")
    assert "retry=" not in (tmp_path / "launch.log").read_text()
