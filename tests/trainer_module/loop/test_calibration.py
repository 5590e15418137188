"""A calibration against scikit-learn's, and what a training leaves of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.tasks import BinaryTask
from sangam.trainer_module.input.raw_examples import first_examples
from tests.errors import mentions, place_and_value
from tests.trainer_module.sample_blocks import write_blocks
from tests.trainer_module.sample_job import BLOCK_ROWS, NUM_EXAMPLES, declared, write_examples, write_job

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

KINDS = ("platt", "isotonic")


def _task(kind: str, **more: Any) -> BinaryTask:
    return BinaryTask.model_validate({"kind": "binary", "calibration": {"kind": kind}, **more})


def _sample(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns logits that are too high and too far apart, and labels."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=count) * 2
    return logits, generator.random(count) < 1 / (1 + np.exp(2 - logits / 2 - np.sin(logits)))


def _counts(logits: np.ndarray, labels: np.ndarray) -> Any:
    from sangam.trainer_module.loop.calibration import Counts

    values, places = np.unique(logits, return_inverse=True)
    return Counts(values, *(np.bincount(places, labels == label).astype(float) for label in (0, 1)))


def _targets(labels: np.ndarray) -> np.ndarray:
    return np.where(labels, (labels.sum() + 1) / (labels.sum() + 2), 1 / ((~labels).sum() + 2))


def _calibrated(calibration: Calibration, logits: np.ndarray) -> np.ndarray:
    from sangam.trainer_module.losses.tasks import calibrated

    found: np.ndarray = calibrated(calibration, tf.constant(logits)).numpy()
    return found


def test_platts_weights_equal_scikit_learns_on_his_targets() -> None:
    from sangam.trainer_module.loop.calibration import platt

    logits, labels = _sample(3000)
    targets = _targets(labels)
    oracle = LogisticRegression(penalty=None, tol=1e-12, max_iter=1000).fit(
        np.tile(logits, 2)[:, None], np.repeat([1, 0], len(logits)), np.concatenate([targets, 1 - targets])
    )
    assert platt(_counts(logits, labels)) == pytest.approx((oracle.coef_[0, 0], oracle.intercept_[0]), abs=1e-5)


def test_isotonic_levels_equal_scikit_learns_and_between_them_it_rises() -> None:
    from sangam.trainer_module.loop.calibration import isotonic

    # 40 scores with a fortieth of the examples each: fewer than the groups, so that none are pooled beforehand.
    logits = np.tile(np.linspace(-4, 4, 40), 100)
    labels = np.random.default_rng(1).random(len(logits)) < 1 / (1 + np.exp(1 - logits))
    points, values = isotonic(_counts(logits, labels))
    levels = np.round(IsotonicRegression().fit_transform(logits, _targets(labels)), 12)
    expected = np.unique(levels)
    assert 10 < len(expected) < 35
    means = [logits[levels == level].mean() for level in expected]
    places = [int(np.argmin(np.abs(points - mean))) for mean in means]
    np.testing.assert_allclose(points[places], means, atol=1e-12)
    np.testing.assert_allclose(1 / (1 + np.exp(-values[places])), expected, atol=1e-12)
    # Beyond them only the ends, where the first and the last level hold several scores.
    assert set(points) == {*points[places], -4.0, 4.0}


def test_a_level_hardly_above_the_one_before_is_left_out() -> None:
    from sangam.trainer_module.loop.calibration import LEAST_SLOPE, Counts, isotonic

    logits = np.array([-1.0, 0.0, 1.0])
    points, values = isotonic(Counts(logits, np.array([9e5, 8e5 - 1, 7e5]), np.array([2.25e5, 2e5 + 1, 3e5])))
    assert points.tolist() == [-1.0, 1.0]
    np.testing.assert_allclose(values, np.log([1 / 4, 3 / 7]), atol=1e-4)
    assert (np.diff(values) / np.diff(points) > LEAST_SLOPE).all()


def test_beyond_the_first_and_the_last_level_it_is_nearly_level_to_the_ends() -> None:
    from sangam.trainer_module.loop.calibration import LEAST_SLOPE, Counts, isotonic

    positives = np.array([3e5, 2e5, 8e5, 7e5])
    points, values = isotonic(Counts(np.array([-3.0, -1.0, 1.0, 5.0]), 1e6 - positives, positives))
    assert points.tolist() == [-3.0, -2.0, 3.0, 5.0]
    first, last = np.log([1 / 3, 3])
    np.testing.assert_allclose(values, [first - LEAST_SLOPE, first, last, last + 2 * LEAST_SLOPE], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_it_rises_strictly_and_is_undone_by_its_inverse(kind: str) -> None:
    from sangam.trainer_module.loop.calibration import fit

    fitted = fit(_task(kind), _counts(*_sample(20_000)), ("2024-03-05",))
    assert fitted is not None
    assert (len(fitted.logits), fitted.days) == ({"platt": 1}.get(kind, len(fitted.logits)), ("2024-03-05",))
    # Neighboring float32 numbers around the points too, where it bends.
    points = np.float32(fitted.logits)[:, None]
    around = points + np.maximum(np.spacing(points), np.float32(1e-9)) * np.arange(-3, 4)
    logits = np.unique(np.concatenate([np.float32(around.ravel()), np.float32(np.linspace(-40, 40, 100_001))]))
    found = _calibrated(fitted, logits)
    assert found.dtype == np.float64
    assert (np.diff(found) > 0).all()
    np.testing.assert_allclose(_calibrated(fitted.inverse(), found), logits, atol=1e-9)
    assert np.isnan(_calibrated(fitted, np.array([np.nan], np.float32)))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_fitted_to_the_corrected_logit_where_negatives_were_sampled(kind: str) -> None:
    from sangam.trainer_module.loop.calibration import fit

    logits, labels = _sample(3000)
    sampled = fit(_task(kind, keep_negatives=0.1), _counts(logits - np.log(0.1), labels), ())
    plain = fit(_task(kind), _counts(logits, labels), ())
    assert sampled is not None
    assert plain is not None
    np.testing.assert_allclose(_calibrated(sampled, logits), _calibrated(plain, logits), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_gives_it_another_mean_prediction(kind: str) -> None:
    from sangam.trainer_module.loop.calibration import fit, mean_prediction, with_mean

    task, (logits, labels) = _task(kind, keep_negatives=0.5), _sample(3000)
    counts = _counts(logits, labels)
    fitted = fit(task, counts, ())
    assert fitted is not None
    made = with_mean(task, fitted, counts, 0.3)
    found = _calibrated(made, logits + np.log(0.5))
    assert (1 / (1 + np.exp(-found))).mean() == pytest.approx(0.3, abs=1e-9)
    assert mean_prediction(task, made, counts) == pytest.approx(0.3, abs=1e-9)
    before = _calibrated(fitted, logits + np.log(0.5))
    np.testing.assert_allclose(found - before, (found - before)[0], atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "logits", "labels", "problem"),
    [
        ("platt", [1.0, 2.0, 3.0], [1, 1, 1], "no negatives (got 3 examples"),
        ("isotonic", [1.0, 2.0, 3.0], [0, 0, 0], "no positives (got 3 examples"),
        ("isotonic", [], [], "no positives (got 0 examples"),
        ("platt", [0.5] * 4, [0, 1, 0, 1], "equal"),
        ("platt", [-2.0, -1.0, 1.0, 2.0] * 50, [1, 1, 0, 0] * 50, "(got a slope of -"),
    ],
)
def test_what_cannot_be_fitted_changes_nothing_and_says_why(
    kind: str, logits: list[float], labels: list[int], problem: str
) -> None:
    from sangam.trainer_module.loop.calibration import fit

    fitted = fit(_task(kind), _counts(np.array(logits), np.array(labels) == 1), ())
    assert fitted is not None
    assert mentions(fitted.problem, problem)
    np.testing.assert_array_equal(_calibrated(fitted, np.array([-3.0, 0.0, 5.0])), [-3.0, 0.0, 5.0])


def _declared() -> RankerSpec:
    """Returns a ranker that is too sure, as it learns its examples by heart; both binary tasks have one label."""
    ranker = declared(
        epochs=4,
        early_stopping={"task": "watch", "patience": 4},
        checkpoint={"every_steps": 9, "keep": 1},
        dense_optimizer={"kind": "adam", "learning_rate": 0.03},
    )
    return ranker.model_copy(update={"tasks": {**ranker.tasks, **{kind: _task(kind) for kind in KINDS}}})


def _train(directory: Path, ranker: RankerSpec, files: tuple[str, ...]) -> dict[str, Any]:
    from sangam.schemas.contracts.training_job import read_job
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.training import train

    collectives.start()
    made = read_job(write_job(directory, ranker, files))
    split = {"train_files": files[1:], "validation_files": files[:1], "validation_days": ("2024-03-05",)}
    train(made.model_copy(update=split), "", "0", rank=0, ranks=1)
    report: dict[str, Any] = json.loads((directory / "output" / "training.json").read_text())
    return report


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder, written = tmp_path_factory.mktemp("data"), []
    for file in write_examples(folder / "of_two_tasks"):
        examples = [tf.train.Example.FromString(record) for record in first_examples([file], NUM_EXAMPLES)]
        for example in examples:
            for kind in KINDS:
                example.features.feature[kind].CopyFrom(example.features.feature["like"])
        written.append(str(folder / Path(file).name))
        write_blocks(Path(written[-1]), [example.SerializeToString() for example in examples], BLOCK_ROWS)
    return tuple(written)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, files: tuple[str, ...]) -> Path:
    directory = tmp_path_factory.mktemp("trained")
    _train(directory, _declared(), files)
    return directory


@pytest.fixture(scope="module")
def scored(trained: Path, files: tuple[str, ...]) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Labels of the validation split, and the final checkpoint's predictions without and with its calibrations."""
    from sangam.trainer_module.checkpoint.manifest import read_manifest
    from sangam.trainer_module.checkpoint.restore import read_snapshot
    from sangam.trainer_module.input.local_reader import validation_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    final, ranker = trained / "final", _declared()
    manifest = read_manifest(final)
    found = []
    for calibrations in ({}, manifest.calibrations):
        trainer = InStepTrainer(Ranker(ranker, calibrations), rank=0, ranks=1)
        trainer.restore(read_snapshot(final, manifest, rank=0, ranks=1), final)
        batches = list(validation_batches(ranker, files[:1], rank=0, ranks=1))
        answers = [trainer.predict(batch) for batch in batches]
        found.append({task: np.concatenate([answer[task][:, 0] for answer in answers]) for task in ranker.tasks})
    return np.concatenate([batch["labels"].numpy()[:, 0] for batch in batches]), *found


@pytest.mark.parametrize("kind", KINDS)
def test_the_final_checkpoint_has_the_calibration_of_its_model_fitted_on_the_validation_split_alone(
    trained: Path, scored: Any, kind: str
) -> None:
    from sangam.trainer_module.checkpoint.manifest import read_manifest
    from sangam.trainer_module.loop.calibration import fit

    calibrations = read_manifest(trained / "final").calibrations
    labels, before, after = scored
    assert set(calibrations) == set(KINDS)
    fitted = calibrations[kind]
    assert (fitted.kind, fitted.days, fitted.problem) == (kind, ("2024-03-05",), "")
    assert (fitted.examples, fitted.positives) == (len(labels), int(labels.sum()))
    own = np.log(before[kind].astype(float)) - np.log1p(-before[kind].astype(float))
    expected = fit(_task(kind), _counts(own, labels == 1), fitted.days)
    assert expected is not None
    # The trainer counts logits in bins 0.0016 wide.
    np.testing.assert_allclose(_calibrated(fitted, own), _calibrated(expected, own), atol=0.02)
    np.testing.assert_allclose(after[kind], 1 / (1 + np.exp(-_calibrated(fitted, own))), atol=1e-6)
    report = json.loads((trained / "output" / "training.json").read_text())
    assert report["calibrations"][kind] == fitted.facts()


@pytest.mark.parametrize("kind", KINDS)
def test_calibrated_predictions_have_a_lower_log_loss_and_the_same_order(scored: Any, kind: str) -> None:
    labels, before, after = scored[0], scored[1][kind], scored[2][kind]
    assert after.dtype == before.dtype == np.float32
    assert log_loss(labels, after) < log_loss(labels, before) - 0.002
    assert after.mean() == pytest.approx(labels.mean(), rel=0.02)
    np.testing.assert_array_equal(np.argsort(after, kind="stable"), np.argsort(before, kind="stable"))
    assert roc_auc_score(labels, after) == pytest.approx(roc_auc_score(labels, before), abs=1e-6)
    for task in ("like", "watch"):
        np.testing.assert_array_equal(scored[1][task], scored[2][task])


@pytest.mark.long
def test_a_job_killed_after_its_last_epoch_resumes_to_the_same_calibrations(
    trained: Path, files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.checkpoint.manifest import read_manifest
    from sangam.trainer_module.loop.checkpointing import Checkpointer

    def die(checkpointer: Checkpointer, target: Path) -> None:
        checkpointer.writer.finish()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointer, "write_final", die)
        with pytest.raises(KeyboardInterrupt):
            _train(tmp_path, _declared(), files)
    assert len(_train(tmp_path, _declared(), files)["resumed_from_step"]) == 1
    resumed, undisturbed = (read_manifest(folder / "final") for folder in (tmp_path, trained))
    assert resumed.calibrations == undisturbed.calibrations
    assert resumed.calibrations


def test_without_a_validation_split_it_is_an_error_before_training(files: tuple[str, ...], tmp_path: Path) -> None:
    from sangam.schemas.contracts.training_job import read_job
    from sangam.schemas.errors import UserError
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.training import train

    collectives.start()
    made = read_job(write_job(tmp_path, _declared(), files)).model_copy(update={"validation_files": ()})
    with pytest.raises(UserError, match=place_and_value("training.early_stopping", "(got no examples")):
        train(made, "", "0", rank=0, ranks=1)
    all_epochs = made.ranker.training.model_copy(update={"early_stopping": None})
    made = made.model_copy(update={"ranker": made.ranker.model_copy(update={"training": all_epochs})})
    with pytest.raises(UserError, match=place_and_value("tasks.platt.calibration", "(got no examples")):
        train(made, "", "0", rank=0, ranks=1)
