"""What is measured in Beam, read back: both models, slices, groups, lists, new ids and intervals, against oracles."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sangam.components.steps.evaluator.metrics.measured import METRICS_FILE, Measured, name_of, paired_change
from sangam.schemas.spec.release import Evaluation
from tests.components.examples import sample_files

sklearn_metrics = pytest.importorskip("sklearn.metrics")
NOISE = {"candidate": 0.5, "baseline": 0.0}


def test_a_slice_is_named_in_the_order_in_which_it_is_declared_whatever_the_order_of_its_values() -> None:
    evaluation = Evaluation(slices=(("tab", "language"),))
    assert name_of(evaluation, {"language": "hi", "tab": "home"}) == "tab=home,language=hi"
    assert name_of(evaluation, {"tab": "home", "age": 3}) == "age=3,tab=home"
    assert name_of(evaluation, {}) == ""


def test_a_change_is_of_the_same_examples() -> None:
    candidate, baseline = Measured(0.7, 0.5, 0.9, (0.5, 0.6, 0.9)), Measured(0.6, 0.4, 0.8, (0.4, 0.5, 0.8))
    change = paired_change(candidate, baseline, level=0.9)
    assert (change.value, change.lower, change.upper) == pytest.approx((0.1, 0.1, 0.1))


def test_a_change_from_or_to_nothing_is_undefined_and_one_without_replicates_has_no_interval() -> None:
    assert paired_change(Measured(None), Measured(0.6), level=0.9) == Measured(None)
    change = paired_change(Measured(0.5), Measured(0.25), level=0.9)
    assert change == Measured(0.25, None, None)


@pytest.fixture(scope="module")
def world() -> Any:
    from tests.components.steps.evaluator import sample_measuring as measuring_world

    return measuring_world


@pytest.fixture(scope="module")
def columns(world: Any) -> dict[str, np.ndarray]:
    return world.rows()


@pytest.fixture(scope="module")
def folder(world: Any, columns: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds examples, a candidate and a better baseline that knows no signature but one."""
    path = tmp_path_factory.mktemp("measuring")
    sample_files.write_eval_split(path / "examples", columns)
    world.export(path / "candidate", noise=NOISE["candidate"], known_ids=True)
    world.export(path / "baseline", noise=NOISE["baseline"], known_ids=False)
    return path


@pytest.fixture(scope="module")
def results(world: Any, folder: Path) -> Any:
    return world.measure(
        folder / "both", examples=folder / "examples", model=folder / "candidate", baseline=folder / "baseline"
    )


def rows_of(name: str, world: Any, columns: dict[str, np.ndarray]) -> np.ndarray:
    """Returns which examples are in a slice."""
    if name == "new user":
        return world.is_new_user(columns)
    chosen = np.ones(world.NUM_ROWS, bool)
    for part in filter(None, name.split(",")):
        feature, value = part.split("=")
        chosen &= columns[world.INPUTS.column_of(feature)] == value.encode()
    return chosen


def gauc(users: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> tuple[float, int]:
    """Returns GAUC, users weighing by their positives, and the number of users that count."""
    aucs, weights = [], []
    for user in np.unique(users):
        mine = users == user
        if len(set(labels[mine])) == 2:
            aucs.append(sklearn_metrics.roc_auc_score(labels[mine], scores[mine]))
            weights.append(labels[mine].sum())
    return float(np.average(aucs, weights=weights)), len(aucs)


def ndcg(lists: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> float:
    values = []
    for each in np.unique(lists):
        mine = lists == each
        if labels[mine].any():
            values.append(sklearn_metrics.ndcg_score([labels[mine]], [scores[mine]], k=3) if mine.sum() > 1 else 1.0)
    return float(np.mean(values))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["candidate", "baseline"])
@pytest.mark.parametrize("name", ["", "tab=home", "tab=profil é", "language=en,tab=search", "language=hi", "new user"])
def test_metrics_of_a_slice_equal_scikit_learns_on_its_examples(
    results: Any, world: Any, columns: dict[str, np.ndarray], name: str, side: str
) -> None:
    chosen = rows_of(name, world, columns)
    predicted = {task: values[chosen] for task, values in world.scores(columns, NOISE[side]).items()}
    labels, watched = columns["like"][chosen], columns["watched_s"][chosen]
    like, watch = (getattr(results[name], side)[task] for task in ("like", "watch"))
    assert like["num_examples"].value == watch["num_examples"].value == chosen.sum()
    assert like["auc"].value == pytest.approx(sklearn_metrics.roc_auc_score(labels, predicted["like"]), abs=1e-5)
    precision = sklearn_metrics.average_precision_score(labels, predicted["like"])
    assert like["pr_auc"].value == pytest.approx(precision, abs=1e-4)
    assert like["log_loss"].value == pytest.approx(sklearn_metrics.log_loss(labels, predicted["like"]), rel=1e-4)
    assert like["mean_prediction"].value == pytest.approx(predicted["like"].mean(), rel=1e-5)
    assert watch["rmse"].value == pytest.approx(np.sqrt(((watched - predicted["watch"]) ** 2).mean()), rel=1e-5)
    stats = pytest.importorskip("scipy.stats")
    assert watch["rank_correlation"].value == pytest.approx(stats.spearmanr(watched, predicted["watch"])[0], abs=1e-6)
    users, sessions = columns["user_id"][chosen], columns["session"][chosen]
    mean, counted = gauc(users, labels, predicted["like"])
    assert like["gauc"].value == pytest.approx(mean)
    assert like["num_groups"].value == counted
    assert like["num_groups_skipped"].value == len(np.unique(users)) - counted
    assert like["ndcg_at_3"].value == pytest.approx(ndcg(sessions, labels, predicted["like"]))
    assert 0 < like["recall_at_3"].value <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "tab=home", "language=hi", "new user"])
def test_a_calibrated_task_is_measured_as_it_would_be_without(
    results: Any, world: Any, columns: dict[str, np.ndarray], name: str
) -> None:
    chosen = rows_of(name, world, columns)
    calibration = world.CALIBRATIONS["like"]
    # exp(-z) = 1 / p - 1
    served = -np.log(1 / world.scores(columns, NOISE["candidate"])["like"][chosen].astype(float) - 1)
    inside = np.clip(served, calibration.calibrated[0], calibration.calibrated[-1])
    own = np.interp(inside, calibration.calibrated, calibration.logits) + served - inside
    before, labels = 1 / (1 + np.exp(-own)), columns["like"][chosen]
    like = results[name].candidate["like"]
    assert like["uncalibrated_calibration"].value == pytest.approx(before.sum() / labels.sum(), rel=1e-5)
    assert like["uncalibrated_log_loss"].value == pytest.approx(sklearn_metrics.log_loss(labels, before), rel=1e-5)
    order = np.argsort(before, kind="stable")
    tenths = np.floor(10 * (np.arange(len(order)) + 0.5) / len(order))
    errors = [abs((before - labels)[order][tenths == tenth].sum()) for tenth in range(10)]
    assert like["uncalibrated_calibration_error"].value == pytest.approx(sum(errors) / len(order), rel=1e-3)
    assert like["calibration"].value != pytest.approx(like["uncalibrated_calibration"].value, rel=0.01)
    buy = results[name].candidate["buy"]
    assert {metric for metric in buy if metric.startswith("uncalibrated_")} == {
        f"uncalibrated_{kind}{metric}"
        for kind in ("", "weighted_")
        for metric in ("calibration", "calibration_error", "log_loss")
    }
    assert not any(metric.startswith("uncalibrated_") for metric in results[name].candidate["watch"])
    assert not any(metric.startswith("uncalibrated_") for metric in results[name].baseline["like"])


@pytest.mark.slow
def test_the_order_of_scores_is_the_same_without_a_calibration(results: Any, folder: Path) -> None:
    del results
    rows = pq.read_table(folder / "both" / METRICS_FILE).to_pylist()
    auc = {
        (row["model"], row["slice"]): row["value"] for row in rows if (row["task"], row["metric"]) == ("like", "auc")
    }
    of_slice = [key for model, key in auc if model == "uncalibrated"]
    assert len(of_slice) == 15
    for key in of_slice:
        # The buckets of both are not the same, and examples of one bucket count as equal.
        assert auc["uncalibrated", key] == pytest.approx(auc["candidate", key], abs=3e-5)


@pytest.mark.slow
def test_slices_are_the_declared_ones_those_of_gates_and_new_ids_of_which_there_are_some(results: Any) -> None:
    tabs = [f"tab={tab}" for tab in ("home", "profil é", "search")]
    both = [f"language={language},{tab}" for language in ("en", "hi") for tab in tabs]
    initials = [f"initial={initial}" for initial in "hps"]
    # All languages are known; of tabs the model's signature says nothing.
    assert sorted(results) == sorted(["", *tabs, *both, *initials, "language=hi", "new user"])


@pytest.mark.slow
@pytest.mark.parametrize("side", ["candidate", "baseline"])
@pytest.mark.parametrize("name", ["", "tab=home", "new user"])
def test_declared_metrics_equal_scikit_learns_and_one_written_again_has_the_same_interval(
    results: Any, world: Any, columns: dict[str, np.ndarray], name: str, side: str
) -> None:
    chosen = rows_of(name, world, columns)
    predicted = {task: values[chosen] for task, values in world.scores(columns, NOISE[side]).items()}
    labels = columns["like"][chosen]
    like, watch = (getattr(results[name], side)[task] for task in ("like", "watch"))
    f_half = sklearn_metrics.fbeta_score(labels, predicted["like"] >= 0.5, beta=0.5)
    assert like["f_half"].value == pytest.approx(f_half, abs=1e-12)
    assert like["f_half"].lower < f_half < like["f_half"].upper
    assert like["brier"].value == pytest.approx(sklearn_metrics.brier_score_loss(labels, predicted["like"]), abs=1e-6)
    assert watch["brier"].value == pytest.approx(watch["rmse"].value ** 2)
    assert "f_half" not in watch
    again, log_loss = like["surprise"], like["log_loss"]
    assert dataclasses.astuple(again)[:3] == pytest.approx(dataclasses.astuple(log_loss)[:3], abs=1e-12)
    assert again.replicates == pytest.approx(log_loss.replicates, abs=1e-12)


@pytest.mark.slow
def test_declared_metrics_are_weighted_as_the_products_are_and_not_measured_before_a_calibration(results: Any) -> None:
    buy = results[""].candidate["buy"]
    weighted, of_product = buy["weighted_surprise"], buy["weighted_log_loss"]
    assert (weighted.value, weighted.lower) == pytest.approx((of_product.value, of_product.lower), abs=1e-12)
    assert buy["surprise"].value == pytest.approx(buy["log_loss"].value, abs=1e-12)
    assert buy["surprise"].value != pytest.approx(weighted.value, abs=1e-3)
    assert not any("surprise" in metric for metric in buy if metric.startswith("uncalibrated_"))


@pytest.mark.slow
def test_slices_of_parts_hold_the_examples_of_their_text_and_none_without_one(
    results: Any, columns: dict[str, np.ndarray]
) -> None:
    for initial, tab in (("h", b"home"), ("s", b"search")):
        of_part, of_feature = results[f"initial={initial}"], results[f"tab={tab.decode()}"]
        assert of_part.candidate == of_feature.candidate
        assert of_part.features == {"initial"}
        assert of_part.candidate["like"]["num_examples"].value == (columns["tab_name"] == tab).sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "tab=home", "language=hi"])
def test_a_task_is_measured_on_the_examples_that_take_part_in_it(
    results: Any, world: Any, columns: dict[str, np.ndarray], name: str
) -> None:
    here = rows_of(name, world, columns)
    bought, dwelt, weighed = (
        [value is not None for value in columns[column]] for column in ("bought", "dwelt_s", "worth")
    )
    chosen = here & (columns["like"] == 1) & bought & weighed
    labels, scores = columns["bought"][chosen].astype(int), world.scores(columns, NOISE["candidate"])["like"][chosen]
    buy = results[name].candidate["buy"]
    worth = columns["worth"][chosen].astype(float)
    weighted = sklearn_metrics.roc_auc_score(labels, scores, sample_weight=worth)
    assert buy["weighted_auc"].value == pytest.approx(weighted, abs=1e-4)
    assert buy["weighted_log_loss"].value == pytest.approx(
        sklearn_metrics.log_loss(labels, scores, sample_weight=worth), rel=1e-4
    )
    assert abs(buy["weighted_auc"].value - buy["auc"].value) > 1e-4
    assert (buy["weighted_auc"].lower is None) == (buy["auc"].lower is None)
    assert not any(metric.startswith("weighted_") for metric in results[name].candidate["like"])
    assert buy["num_examples"].value == chosen.sum() < results[name].candidate["like"]["num_examples"].value
    assert buy["auc"].value == pytest.approx(sklearn_metrics.roc_auc_score(labels, scores), abs=1e-4)
    assert buy["mean_label"].value == pytest.approx(labels.mean())
    assert buy["calibration"].value == pytest.approx(scores.sum() / labels.sum(), rel=1e-5)
    assert buy["non_finite"].value == 0
    mean, counted = gauc(columns["user_id"][chosen], labels, scores)
    assert buy["gauc"].value == pytest.approx(mean)
    assert buy["num_groups"].value == counted
    watched = here & np.array(dwelt)
    dwell = results[name].candidate["dwell"]
    seconds = columns["dwelt_s"][watched].astype(float)
    predicted = np.exp(columns["x"] + NOISE["candidate"] * columns["noise"])[watched]
    assert dwell["num_examples"].value == watched.sum()
    assert dwell["rmse"].value == pytest.approx(np.sqrt(((seconds - predicted) ** 2).mean()), rel=1e-5)
    assert dwell["calibration"].value == pytest.approx(predicted.sum() / seconds.sum(), rel=1e-5)


@pytest.mark.slow
def test_a_task_in_which_no_example_takes_part_has_no_metrics(results: Any) -> None:
    never = results[""].candidate["never"]
    assert never["num_examples"].value == 0
    assert {name for name, measured in never.items() if measured.value is not None} == {"num_examples"}


@pytest.mark.slow
def test_scores_that_are_no_numbers_are_counted_and_disturb_no_other_task(
    results: Any, world: Any, columns: dict[str, np.ndarray]
) -> None:
    for name in ("", "tab=home", "new user"):
        broken = results[name].candidate["broken"]
        share = world.is_broken(columns)[rows_of(name, world, columns)].mean()
        assert broken["non_finite"].value == pytest.approx(share)
        undefined = {metric for metric, measured in broken.items() if measured.value is None}
        assert undefined >= {"auc", "pr_auc", "log_loss", "calibration", "gauc", "ndcg_at_3", "recall_at_3"}
        assert results[name].candidate["like"]["non_finite"].value == 0


@pytest.mark.slow
def test_replicates_weigh_users_as_their_hash_says_alike_for_both_models(
    results: Any, world: Any, columns: dict[str, np.ndarray]
) -> None:
    import pyarrow

    from sangam.components.steps.evaluator.metrics.bootstrap import weights
    from sangam.components.steps.evaluator.metrics.columns import keys

    drawn = weights(keys(pyarrow.array(columns["user_id"])), 20, seed=1)
    chosen = rows_of("tab=home", world, columns)
    for side, noise in NOISE.items():
        predicted = world.scores(columns, noise)["like"][chosen]
        measured = getattr(results["tab=home"], side)["like"]["auc"]
        expected = [
            sklearn_metrics.roc_auc_score(columns["like"][chosen], predicted, sample_weight=drawn[chosen, replicate])
            for replicate in range(1, 21)
        ]
        assert list(measured.replicates) == pytest.approx(expected, abs=1e-4)
        assert measured.lower == pytest.approx(np.quantile(measured.replicates, 0.025))
        assert measured.lower < measured.value < measured.upper


@pytest.mark.slow
def test_the_interval_of_a_change_is_narrower_than_that_of_a_metric(results: Any) -> None:
    candidate, baseline = results[""].candidate["like"]["auc"], results[""].baseline["like"]["auc"]
    change = paired_change(candidate, baseline, level=0.95)
    assert change.value == pytest.approx(candidate.value - baseline.value)
    assert change.lower < change.value < change.upper < 0
    assert change.upper - change.lower < baseline.upper - baseline.lower


@pytest.mark.slow
def test_slices_too_small_to_be_judged_have_no_interval(results: Any) -> None:
    small, large = results["language=en,tab=search"].candidate["like"], results["tab=home"].candidate["like"]
    assert small["num_examples"].value < 400 < large["num_examples"].value
    assert (small["auc"].lower, small["auc"].replicates) == (None, ())
    assert large["gauc"].lower is not None
    assert all(measured.lower is None for measured in small.values())


@pytest.mark.slow
def test_calibration_is_given_by_tenths_of_the_examples(results: Any) -> None:
    buckets = results[""].calibration_buckets["like"]
    assert [bucket["num_examples"] for bucket in buckets] == pytest.approx([300] * 10, abs=2)
    assert buckets[0]["mean_prediction"] < buckets[9]["mean_prediction"]
    assert all(math.isfinite(value) for bucket in buckets for value in bucket.values())
    assert "broken" not in results[""].calibration_buckets


@pytest.mark.slow
def test_a_model_that_cannot_tell_new_ids_is_measured_without_their_slices(world: Any, folder: Path) -> None:
    from sangam.components.steps.evaluator.models.candidate import features_with_known_ids

    assert features_with_known_ids(str(folder / "candidate" / "Format-Serving")) == {"user", "language"}
    assert features_with_known_ids(str(folder / "baseline" / "Format-Serving")) == frozenset()
    results = world.measure(folder / "one", examples=folder / "examples", model=folder / "baseline", baseline=None)
    assert not any(name.startswith("new ") for name in results)
    assert results[""].baseline == {}
    assert results[""].candidate["like"]["auc"].value is not None
