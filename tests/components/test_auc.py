"""The AUC metric: exact where TFMA's own is coarse, undefined where an AUC means nothing."""

import math

import numpy as np
import pytest

pytestmark = pytest.mark.slow

sklearn_metrics = pytest.importorskip("sklearn.metrics")


def counted(scores: np.ndarray, labels: np.ndarray) -> float:
    from components.evaluator.auc import area, bucket

    counts: dict[int | str, list[float]] = {}
    for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
        counts.setdefault(bucket(score), [0.0, 0.0])[int(label)] += 1
    return area(counts)


@pytest.mark.parametrize("mean_logit", [-8.0, -5.0, 0.0, 8.0])
def test_equals_scikit_learn_for_rare_and_for_common_events(mean_logit: float) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(mean_logit, 0.7, 60_000)
    scores = (1 / (1 + np.exp(-logits))).astype(np.float32)
    labels = random.random(logits.size) < scores
    assert counted(scores, labels) == pytest.approx(sklearn_metrics.roc_auc_score(labels, scores), abs=1e-4)


def test_ties_count_half() -> None:
    assert counted(np.array([0.5, 0.5, 0.9]), np.array([0, 1, 1])) == pytest.approx(0.75)


def test_saturated_scores_are_ordered() -> None:
    assert counted(np.array([0.0, 1.0]), np.array([0, 1])) == 1.0


@pytest.mark.parametrize("labels", [[0, 0], [1, 1]])
def test_is_undefined_for_labels_of_one_class(labels: list[int]) -> None:
    assert math.isnan(counted(np.array([0.1, 0.2]), np.array(labels)))


def test_is_undefined_for_scores_that_are_no_numbers() -> None:
    assert math.isnan(counted(np.array([0.1, float("nan")]), np.array([0, 1])))
