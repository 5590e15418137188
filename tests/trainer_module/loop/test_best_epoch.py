"""A job that ends early leaves the best epoch's weights and rows, also when it was killed on the way."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.errors import place_and_value
from tests.trainer_module.sample_job import declared, job, read_dense, read_rows, write_examples, write_job

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

GROUPS = ("adagrad_4", "adagrad_8")


def _declared(**changes: Any) -> Any:
    """Returns a ranker that learns its 600 examples by heart within a few epochs."""
    settings: dict[str, Any] = {
        "epochs": 12,
        "early_stopping": {"task": "watch", "patience": 2},
        "checkpoint": {"every_steps": 9, "keep": 1},
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.03},
        "shuffle_buffer": 100,
        "average": {"kind": "ema", "decay": 0.9},
    }
    return declared(**{**settings, **changes})


def _train(directory: Path, ranker: Any, files: tuple[str, ...]) -> dict[str, Any]:
    from sangam.schemas.contracts.training_job import read_job
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.training import train

    collectives.start()
    train(read_job(write_job(directory, ranker, files)), "", "0", rank=0, ranks=1)
    report: dict[str, Any] = json.loads((directory / "output" / "training.json").read_text())
    return report


def _assert_equal_state(one: Path, other: Path) -> None:
    for group in GROUPS:
        for array, expected in zip(read_rows(one, group), read_rows(other, group), strict=True):
            np.testing.assert_array_equal(array, expected, err_msg=group)
    dense = read_dense(other)
    for name, array in read_dense(one).items():
        np.testing.assert_array_equal(array, dense[name], err_msg=name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    # The job's validation split is its first file.
    return write_examples(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, files: tuple[str, ...]) -> tuple[Path, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("ended")
    return directory, _train(directory, _declared(), files)


def _best_step(report: dict[str, Any]) -> int:
    return sum(epoch["steps"] for epoch in report["epochs"][: report["best_epoch"] + 1])


@pytest.mark.long
def test_the_model_is_that_of_a_training_which_ended_with_the_best_epoch(
    ended: tuple[Path, dict[str, Any]], files: tuple[str, ...], tmp_path: Path
) -> None:
    directory, report = ended
    told = report["early_stopping"]
    best = int(np.argmin(told["values"]))
    assert told["metric"] == "watch.rmse"
    assert told["values"] == [epoch["validation"]["watch"]["rmse"] for epoch in report["epochs"]]
    assert (told["best_epoch"], told["best"], report["best_epoch"]) == (best, told["values"][best], best)
    assert (told["reason"], len(told["values"])) == ("not better for 2 epochs", best + 3)
    assert report["checkpoint"]["final_step"] == _best_step(report)
    shorter = _train(tmp_path, _declared(epochs=best + 1, early_stopping=None), files)
    assert shorter["best_epoch"] is None
    # The model of the best epoch has not learned from the validation split, as with `refit`.
    assert (report["refit"], report["days"]) == (None, shorter["days"])
    assert shorter["epochs"][best]["validation"] == report["epochs"][best]["validation"]
    _assert_equal_state(directory / "final", tmp_path / "final")


@pytest.mark.long
def test_a_job_killed_twice_after_its_best_epoch_ends_as_if_nothing_had_been(
    ended: tuple[Path, dict[str, Any]], files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the steps of the next epoch, and between them and its validation."""
    from sangam.trainer_module.checkpoint.folder import published, step_of
    from sangam.trainer_module.loop.checkpointing import Checkpointer
    from sangam.trainer_module.loop.run import Run

    directory, report = ended
    after_step, write_best = Checkpointer.after_step, Checkpointer.write_best

    def wait_for_the_disk(write: Any, checkpointer: Checkpointer) -> None:
        write(checkpointer)
        checkpointer.writer.finish()

    lasts = []
    for moment, checkpoints in (("steps", 1), ("validate", 2)):
        as_it_is = getattr(Run, moment)

        def die(run: Run, epoch: int, as_it_is: Any = as_it_is) -> Any:
            if epoch == report["best_epoch"] + 1:
                raise KeyboardInterrupt
            return as_it_is(run, epoch)

        with monkeypatch.context() as patched:
            patched.setattr(Run, moment, die)
            patched.setattr(Checkpointer, "after_step", lambda each: wait_for_the_disk(after_step, each))
            patched.setattr(Checkpointer, "write_best", lambda each: wait_for_the_disk(write_best, each))
            with pytest.raises(KeyboardInterrupt):
                _train(tmp_path, _declared(), files)
        steps = [step_of(path) for path in published(tmp_path / "checkpoints")]
        assert steps[0] == _best_step(report)
        assert len(steps) == checkpoints
        lasts.append(steps[-1])
    resumed = _train(tmp_path, _declared(), files)
    assert resumed["resumed_from_step"] == lasts
    assert resumed["early_stopping"] == report["early_stopping"]
    assert [epoch["examples"] for epoch in resumed["epochs"]] == [epoch["examples"] for epoch in report["epochs"]]
    _assert_equal_state(tmp_path / "final", directory / "final")


def test_without_a_validation_split_it_is_an_error(files: tuple[str, ...], tmp_path: Path) -> None:
    from sangam.schemas.errors import UserError
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.training import train

    collectives.start()
    made = job(tmp_path, _declared(epochs=2), files).model_copy(update={"validation_files": ()})
    write_job(tmp_path, made.ranker, files)
    with pytest.raises(UserError, match=place_and_value("training.early_stopping", "(got no examples")):
        train(made, "", "0", rank=0, ranks=1)
