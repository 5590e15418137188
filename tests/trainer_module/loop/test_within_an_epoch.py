"""Scores within an epoch: training may end there, with the best point's model, and the refit is as long."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer_module.sample_job import (
    NUM_EXAMPLES,
    declared,
    job,
    read_dense,
    read_rows,
    report_of,
    write_examples,
)

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")

BATCH, STEPS = 16, 42
"""Steps of an epoch, on two of three files; the third is the validation split."""
DAYS, VALIDATION_DAY = ("2024-03-01",), "2024-03-02"


def _train(directory: Path, files: tuple[str, ...], sample: int) -> dict[str, Any]:
    ranker = declared(
        batch_size_per_rank=BATCH,
        epochs=9,
        early_stopping={"task": "watch", "patience": 3, "per_epoch": 4, "sample": sample, "refit": True},
        checkpoint={"every_steps": 7, "keep": 1},
        dense_optimizer={"kind": "adam", "learning_rate": 0.03},
        shuffle_buffer=100,
    )
    made = job(directory, ranker, files[1:]).model_copy(
        update={"validation_files": files[:1], "days": DAYS, "validation_days": (VALIDATION_DAY,)}
    )
    return report_of(made)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, files: tuple[str, ...]) -> tuple[Path, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("ended")
    return directory, _train(directory, files, NUM_EXAMPLES)


def test_the_model_is_that_of_the_best_point_and_the_refit_is_as_long(ended: tuple[Path, dict[str, Any]]) -> None:
    _, report = ended
    told = report["early_stopping"]
    best = int(np.argmin(told["values"]))
    moments = [(0, STEPS), *[(epoch, step) for epoch in range(1, 9) for step in (10, 21, 31, STEPS)]]
    assert [(point["epoch"], point["step"]) for point in told["points"]] == moments[: best + 4]
    assert (told["best_epoch"], told["best_step"]) == moments[best]
    assert (told["reason"], told["is_within_epoch"]) == ("not better for 3 scores", True)
    # Scored again, on the same examples, once its state was read back.
    assert report["epochs"][told["best_epoch"]]["validation"]["watch"]["rmse"] == told["best"]
    assert report["epochs"][-1]["steps"] == moments[best + 3][1]
    held_out = NUM_EXAMPLES - report["epochs"][0]["examples"]
    part = told["best_step"] * BATCH / report["epochs"][0]["examples"]
    examples = -(-round(part * held_out) // BATCH) * BATCH + told["best_epoch"] * held_out
    assert report["refit"]["examples"] == examples
    assert report["refit"]["passes"] == round(told["best_epoch"] + part, 2)
    trained = sum(epoch["steps"] for epoch in report["epochs"])
    assert report["checkpoint"]["final_step"] == trained + report["refit"]["steps"]


@pytest.mark.long
def test_a_job_killed_within_an_epoch_and_within_the_refit_reaches_the_same_verdict_and_model(
    ended: tuple[Path, dict[str, Any]], files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.loop.checkpointing import Checkpointer

    directory, report = ended
    as_it_is = Checkpointer.after_step
    best = report["early_stopping"]
    moments = [best["best_epoch"] * STEPS + best["best_step"] + 8, report["checkpoint"]["final_step"] - 3]

    def die(checkpointer: Checkpointer) -> None:
        as_it_is(checkpointer)
        checkpointer.writer.finish()
        if checkpointer.run.trainer.step == moments[0]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointer, "after_step", die)
        while moments:
            with pytest.raises(KeyboardInterrupt):
                _train(tmp_path, files, NUM_EXAMPLES)
            del moments[0]
    resumed = _train(tmp_path, files, NUM_EXAMPLES)
    assert len(resumed["resumed_from_step"]) == 2
    for name in ("early_stopping", "refit", "best_epoch", "tables"):
        assert resumed[name] == report[name], name
    for group in ("adagrad_4", "adagrad_8"):
        for array, expected in zip(
            read_rows(tmp_path / "final", group), read_rows(directory / "final", group), strict=True
        ):
            np.testing.assert_array_equal(array, expected, err_msg=group)
    dense = read_dense(directory / "final")
    for name, array in read_dense(tmp_path / "final").items():
        np.testing.assert_array_equal(array, dense[name], err_msg=name)
