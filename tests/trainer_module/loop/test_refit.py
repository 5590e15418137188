"""After early stopping the best epoch's model learns from the validation days too, also when it was killed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec.tasks import Platt
from tests.trainer_module.sample_job import NUM_EXAMPLES, job, read_dense, read_rows, report_of, write_examples
from tests.trainer_module.trained_examples import counted_ids, counting, occurrences

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

BASE_DAYS, VALIDATION_DAY = ("2024-03-01", "2024-03-02"), "2024-03-03"


def _train(directory: Path, files: tuple[str, ...], *, has_days: bool = True) -> dict[str, Any]:
    ranker = counting(
        ranks=1,
        epochs=12,
        early_stopping={"task": "watch", "patience": 2, "refit": True},
        checkpoint={"every_steps": 9, "keep": 1},
        dense_optimizer={"kind": "adam", "learning_rate": 0.03},
        schedule={"kind": "cosine", "decay_steps": 200},
        average={"kind": "last"},
    )
    like = ranker.tasks["like"].model_copy(update={"calibration": Platt(kind="platt")})
    ranker = ranker.model_copy(update={"tasks": {**ranker.tasks, "like": like}})
    made = job(directory, ranker, files[1:]).model_copy(
        update={"validation_files": files[:1], "days": BASE_DAYS, "validation_days": (VALIDATION_DAY,)}
    )
    return report_of(made if has_days else made.model_copy(update={"days": (), "validation_days": ()}))


def _calibrations(directory: Path) -> Any:
    from sangam.trainer_module.checkpoint.manifest import read_manifest

    return read_manifest(directory / "final").calibrations


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def means() -> list[tuple[float, float, float]]:
    """Mean predictions of the newest train day: before the refit, after it, and after it with the shift taken back."""
    return []


@pytest.fixture(scope="module")
def ended(
    tmp_path_factory: pytest.TempPathFactory, files: tuple[str, ...], means: list[tuple[float, float, float]]
) -> tuple[Path, dict[str, Any]]:
    from sangam.trainer_module.loop import training

    directory, as_it_is = tmp_path_factory.mktemp("ended"), training.without_shift

    def measured(run: Any, calibrations: Any) -> Any:
        found = as_it_is(run, calibrations)
        sample = run.source.newest_sample(1, NUM_EXAMPLES)
        place = run.trainer.ranker.tasks.index("like")
        z, labels = (
            np.concatenate([values.numpy()[:, place] for values in of_batches]).astype(np.float64)
            for of_batches in (map(run.trainer.logits, sample), map(run.trainer.ranker.labels, sample))
        )
        after, back = (
            (1 / (1 + np.exp(-each["like"].slope * z - each["like"].calibrated[0])))[~np.isnan(labels)].mean()
            for each in (calibrations, found)
        )
        means.append((run.history.means["like"], after, back))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(training, "without_shift", measured)
        return directory, _train(directory, files)


@pytest.mark.long
def test_validation_examples_are_trained_on_as_often_as_the_others(
    ended: tuple[Path, dict[str, Any]], files: tuple[str, ...]
) -> None:
    directory, report = ended
    passes = report["best_epoch"] + 1
    assert passes < len(report["epochs"])
    assert counted_ids(directory) == {key: passes * count for key, count in occurrences(files).items()}
    held_out = NUM_EXAMPLES - report["epochs"][0]["examples"]
    steps = -(-held_out // 16)
    assert report["refit"] == {
        "days": [VALIDATION_DAY],
        "passes": passes,
        "examples": passes * held_out,
        "steps": passes * steps,
    }


@pytest.mark.long
def test_the_days_of_the_refit_are_days_learned_from(ended: tuple[Path, dict[str, Any]]) -> None:
    from sangam.trainer_module.checkpoint.manifest import read_manifest

    directory, report = ended
    assert report["days"] == [*BASE_DAYS, VALIDATION_DAY]
    assert read_manifest(directory / "final").days == (*BASE_DAYS, VALIDATION_DAY)


@pytest.mark.long
def test_the_calibration_is_that_of_the_best_epoch_on_days_that_its_model_had_not_seen(
    ended: tuple[Path, dict[str, Any]],
) -> None:
    directory, report = ended
    fitted = _calibrations(directory)["like"]
    held_out = NUM_EXAMPLES - report["epochs"][0]["examples"]
    assert (fitted.kind, fitted.days, fitted.examples, fitted.problem) == ("platt", (VALIDATION_DAY,), held_out, "")
    assert report["calibrations"] == {"like": fitted.facts()}


@pytest.mark.long
def test_the_refit_does_not_move_the_mean_prediction(
    ended: tuple[Path, dict[str, Any]], means: list[tuple[float, float, float]]
) -> None:
    ((before, after, back),) = means
    assert back == pytest.approx(before, abs=2e-4)  # A bin of logits is 0.0016 wide.
    assert abs(after - before) > 10 * abs(back - before)


@pytest.mark.long
def test_a_job_killed_twice_during_the_refit_ends_as_if_nothing_had_been(
    ended: tuple[Path, dict[str, Any]], files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a checkpoint of the refit, and after some."""
    from sangam.trainer_module.loop.checkpointing import Checkpointer

    directory, report = ended
    as_it_is = Checkpointer.after_step
    before = sum(epoch["steps"] for epoch in report["epochs"])
    moments = [before + 1, before + 31]

    def die(checkpointer: Checkpointer) -> None:
        as_it_is(checkpointer)
        checkpointer.writer.finish()
        if checkpointer.run.trainer.step == moments[0]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointer, "after_step", die)
        while moments:
            with pytest.raises(KeyboardInterrupt):
                _train(tmp_path, files)
            del moments[0]
    resumed = _train(tmp_path, files)
    steps = resumed["resumed_from_step"]
    assert [step > before for step in steps] == [False, True]
    for name in ("early_stopping", "refit", "days", "best_epoch", "tables", "calibrations"):
        assert resumed[name] == report[name], name
    for group in ("adagrad_4", "adagrad_8"):
        for array, expected in zip(
            read_rows(tmp_path / "final", group), read_rows(directory / "final", group), strict=True
        ):
            np.testing.assert_array_equal(array, expected, err_msg=group)
    assert _calibrations(tmp_path) == _calibrations(directory)
    dense = read_dense(directory / "final")
    for name, array in read_dense(tmp_path / "final").items():
        np.testing.assert_array_equal(array, dense[name], err_msg=name)


@pytest.mark.long
def test_rows_without_days_are_refitted_alike_and_train_rows_show_the_shift(
    ended: tuple[Path, dict[str, Any]], files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of logs in named splits, where a share of the train rows validates; killed once."""
    from sangam.trainer_module.input.train_input import TrainInput
    from sangam.trainer_module.loop.checkpointing import Checkpointer

    directory, report = ended
    as_it_is, sampled = Checkpointer.after_step, list[int]()
    before = sum(epoch["steps"] for epoch in report["epochs"])

    def die(checkpointer: Checkpointer) -> None:
        as_it_is(checkpointer)
        checkpointer.writer.finish()
        if checkpointer.run.trainer.step == before + 31:
            raise KeyboardInterrupt

    def of_train(source: TrainInput, size: int) -> Any:
        sample = source._sample(files[1:], size)
        sampled.append(sum(len(batch["labels"]) for batch in sample))
        return sample

    monkeypatch.setattr(TrainInput, "train_sample", of_train)
    monkeypatch.delattr(TrainInput, "newest_sample")
    with monkeypatch.context() as patched:
        patched.setattr(Checkpointer, "after_step", die)
        with pytest.raises(KeyboardInterrupt):
            _train(tmp_path, files, has_days=False)
    resumed = _train(tmp_path, files, has_days=False)
    assert resumed["resumed_from_step"][0] > before
    assert resumed["refit"] == {**report["refit"], "days": []}
    assert resumed["days"] == []
    # Before the refit, and after it.
    assert sampled == 2 * [report["epochs"][0]["examples"]]
    for name, array in read_dense(directory / "final").items():
        np.testing.assert_array_equal(read_dense(tmp_path / "final")[name], array, err_msg=name)


def test_its_rates_go_through_the_schedule_as_those_of_the_epochs_did() -> None:
    from sangam.trainer_module.loop.learning_rate import StepsOfSchedule

    steps = StepsOfSchedule()
    assert [int(steps.at(tf.constant(step, tf.int64))) for step in (1, 2, 100)] == [1, 2, 100]
    # 40 steps of an epoch, 10 of a pass over the validation split: a quarter of the steps, the same way.
    steps.begin(step=100, pace=4.0)
    assert [int(steps.at(tf.constant(step, tf.int64))) for step in (101, 102, 110, 111)] == [1, 5, 37, 41]
    again = StepsOfSchedule()
    again.restore(steps.snapshot(), step=0)
    assert int(again.at(tf.constant(110, tf.int64))) == 37
