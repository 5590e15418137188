"""The metrics of a slice: scikit-learn's, exact where TFMA's AUC is coarse, undefined where they mean nothing."""

import math

import numpy as np
import pytest

from components.evaluator.totals import BinaryTotals, RegressionTotals

sklearn_metrics = pytest.importorskip("sklearn.metrics")


def binary(scores: list[float], labels: list[int]) -> BinaryTotals:
    totals = BinaryTotals()
    for score, label in zip(scores, labels, strict=True):
        totals.add(label, score)
    return totals


@pytest.mark.parametrize("mean_logit", [-8.0, -5.0, 0.0, 8.0])
def test_binary_metrics_equal_scikit_learn_for_rare_and_for_common_events(mean_logit: float) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(mean_logit, 0.7, 60_000)
    scores = (1 / (1 + np.exp(-logits))).astype(np.float32)
    labels = (random.random(logits.size) < scores).astype(int)
    metrics = binary(scores.tolist(), labels.tolist()).metrics()
    assert metrics["auc"] == pytest.approx(sklearn_metrics.roc_auc_score(labels, scores), abs=1e-5)
    assert metrics["log_loss"] == pytest.approx(sklearn_metrics.log_loss(labels, scores), rel=1e-6)


def test_ties_count_half() -> None:
    assert binary([0.5, 0.5, 0.9], [0, 1, 1]).metrics()["auc"] == 0.75


def test_saturated_scores_are_ordered_and_cost_a_finite_loss() -> None:
    assert binary([0.0, 1.0], [0, 1]).metrics()["auc"] == 1.0
    assert binary([0.0, 1.0], [1, 0]).metrics()["log_loss"] == pytest.approx(math.log(1e7), rel=1e-6)


@pytest.mark.parametrize("label", [0, 1])
def test_auc_is_undefined_for_labels_of_one_class(label: int) -> None:
    metrics = binary([0.1, 0.2], [label, label]).metrics()
    assert math.isnan(metrics["auc"])
    assert metrics["mean_label"] == label


def test_metrics_are_undefined_for_scores_that_are_no_numbers() -> None:
    metrics = binary([0.1, math.nan], [0, 1]).metrics()
    assert [name for name, value in metrics.items() if math.isnan(value)] == ["auc", "log_loss", "calibration"]


def test_regression_metrics_by_hand() -> None:
    totals = RegressionTotals()
    totals.add(label=1.0, score=2.0)
    totals.add(label=4.0, score=1.0)
    assert totals.metrics() == {"rmse": math.sqrt(5), "calibration": 0.6, "mean_label": 2.5, "num_examples": 2.0}


def test_merged_totals_equal_the_totals_of_all() -> None:
    merged = binary([0.25, 0.5], [0, 1])
    merged.merge(binary([0.5, 0.75], [0, 1]))
    assert merged == binary([0.25, 0.5, 0.5, 0.75], [0, 1, 0, 1])
