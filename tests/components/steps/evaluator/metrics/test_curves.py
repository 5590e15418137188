"""The curves of a task, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import auc, precision_recall_curve, roc_curve

from sangam.components.steps.evaluator.metrics.curves import curve_of
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.totals_histogram import Histogram, bucketed


def _histogram(scores: np.ndarray, labels: np.ndarray) -> Histogram:
    histogram = Histogram(replicates=1)
    histogram.add(bucketed(scores), scores, labels > 0, Draws.of(np.arange(len(scores)), 0, 1))
    return histogram


def test_both_curves_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    labels = (rng.random(5000) < 0.05).astype(float)
    scores = 1 / (1 + np.exp(-(rng.normal(size=5000) + 1.5 * labels - 4)))
    curve = curve_of(_histogram(scores, labels))
    assert curve is not None
    fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
    assert len(curve.true_positive_rate) <= 201
    assert (curve.false_positive_rate[-1], curve.true_positive_rate[-1]) == (1.0, 1.0)
    assert auc(curve.false_positive_rate, curve.true_positive_rate) == pytest.approx(auc(fpr, tpr), abs=2e-3)
    points = set(zip(np.round(fpr, 4).tolist(), np.round(tpr, 4).tolist(), strict=True))
    drawn = list(zip(np.round(curve.false_positive_rate, 4), np.round(curve.true_positive_rate, 4), strict=True))
    assert sum(point in points for point in drawn) > 0.85 * len(drawn)  # Scores that share a bucket are one point.
    precision, recall, _ = precision_recall_curve(labels, scores)
    by_recall = {round(r, 4): p for p, r in zip(precision[:-1], recall[:-1], strict=True)}
    middle = len(drawn) // 2
    near = [p for r, p in by_recall.items() if abs(r - curve.true_positive_rate[middle]) < 0.01]
    assert min(near) - 0.01 < curve.precision[middle] < max(near) + 0.01


def test_every_example_is_in_the_distribution_of_its_class() -> None:
    scores = np.array([0.001, 0.01, 0.01, 0.5, 0.9])
    labels = np.array([0, 0, 1, 1, 1])
    curve = curve_of(_histogram(scores, labels))
    assert curve is not None
    assert (sum(curve.negatives), sum(curve.positives)) == (2, 3)
    assert curve.score_edges[0] == pytest.approx(0.001, rel=1e-3)
    assert curve.score_edges[-1] == pytest.approx(0.9, rel=1e-3)
    assert (curve.negatives[0], curve.positives[-1]) == (1, 1)


@pytest.mark.parametrize("labels", [[0, 0], [1, 1], []])
def test_without_both_classes_there_is_no_curve(labels: list[int]) -> None:
    assert curve_of(_histogram(np.full(len(labels), 0.5), np.array(labels))) is None
