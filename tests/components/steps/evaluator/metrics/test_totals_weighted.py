"""Metrics for which each example counts by its weight: scikit-learn's with `sample_weight`, in whatever parts."""

import functools
import math
import pickle
from typing import Any

import numpy as np
import pytest

from sangam.components.steps.evaluator.metrics.block import Block
from sangam.components.steps.evaluator.metrics.bootstrap import weights
from sangam.components.steps.evaluator.metrics.tally import Measures, Tally
from sangam.components.steps.evaluator.metrics.totals import Part
from sangam.components.steps.evaluator.metrics.totals_binary import BinaryTotals
from sangam.components.steps.evaluator.metrics.totals_regression import RegressionTotals
from sangam.components.steps.evaluator.metrics.totals_weighted import WeightedTotals
from sangam.schemas.host.splitmix64 import mix64

sklearn_metrics = pytest.importorskip("sklearn.metrics")
REPLICATES = 8
TARGET = ("candidate", "like")
SIZE = 5000
RANDOM = np.random.default_rng(7)
SCORES = RANDOM.random(SIZE)
LABELS = (RANDOM.random(SIZE) < SCORES).astype(float)
WEIGHTS = np.where(RANDOM.random(SIZE) < 0.1, 0.0, RANDOM.gamma(1.0, 2.0, SIZE))
IDS = mix64(np.arange(SIZE, dtype=np.uint64))
WHOLE = Part(IDS, IDS, LABELS, SCORES, WEIGHTS)
BINARY, REGRESSION = (functools.partial(WeightedTotals, kind) for kind in (BinaryTotals, RegressionTotals))


def result(parts: list[Part], totals: Any = BINARY) -> Any:
    measures = Measures({TARGET: totals}, REPLICATES, seed=1)
    tally = Tally(measures)
    for part in parts:
        other = Tally(measures)
        labels, scores, weights = {"like": part.labels}, {TARGET: part.scores}, {"like": part.weights}
        other.add(Block(part.ids, part.units, {}, labels, scores, weights=weights))
        other.result(least_examples=1)  # It has been counted.
        tally.merge(pickle.loads(pickle.dumps(other)))
    return tally.result(least_examples=1)[TARGET]


def of_scikit_learn(labels: np.ndarray, scores: np.ndarray, by: np.ndarray) -> dict[str, float]:
    log_loss = sklearn_metrics.log_loss(labels, scores, sample_weight=by)
    rate = np.average(labels, weights=by)
    entropy = -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))
    return {
        "auc": sklearn_metrics.roc_auc_score(labels, scores, sample_weight=by),
        "pr_auc": sklearn_metrics.average_precision_score(labels, scores, sample_weight=by),
        "log_loss": log_loss,
        "normalized_entropy": log_loss / entropy,
        "calibration": (by * scores).sum() / (by * labels).sum(),
    }


def test_weighted_metrics_equal_scikit_learn_beside_the_plain_ones() -> None:
    found = result([WHOLE]).metrics
    for name, expected in of_scikit_learn(LABELS, SCORES, WEIGHTS).items():
        assert found[f"weighted_{name}"][0] == pytest.approx(expected, abs=1e-4), name
    for name, expected in of_scikit_learn(LABELS, SCORES, np.ones(SIZE)).items():
        assert found[name][0] == pytest.approx(expected, abs=1e-4), name
    assert abs(found["weighted_auc"][0] - found["auc"][0]) > 1e-3


def test_every_replicate_weighs_what_it_has_drawn() -> None:
    found = result([WHOLE]).metrics
    drawn = weights(IDS, REPLICATES, 1)
    for replicate in range(1, 1 + REPLICATES):
        expected = of_scikit_learn(LABELS, SCORES, WEIGHTS * drawn[:, replicate])
        assert found["weighted_log_loss"][replicate] == pytest.approx(expected["log_loss"], abs=1e-6)
        # The replicates' histogram has fewer buckets.
        assert found["weighted_auc"][replicate] == pytest.approx(expected["auc"], abs=1e-3)


def test_the_weighted_calibration_error_is_over_tenths_of_the_weight() -> None:
    order = np.argsort(SCORES)
    scores, labels, by = SCORES[order], LABELS[order], WEIGHTS[order]
    tenths = np.floor(10 * (np.cumsum(by) - by / 2) / by.sum())
    gaps = [abs((by * (scores - labels))[tenths == tenth].sum()) for tenth in range(10)]
    assert result([WHOLE]).metrics["weighted_calibration_error"][0] == pytest.approx(sum(gaps) / by.sum(), abs=1e-4)


@pytest.mark.parametrize("totals", [BINARY, REGRESSION], ids=["binary", "regression"])
def test_parts_add_up_in_any_order(totals: Any) -> None:
    parts = [WHOLE.where(slice(start, end)) for start, end in ((0, 10), (10, 3000), (3000, SIZE))]
    whole = result([WHOLE], totals)
    for order in ((0, 1, 2), (2, 0, 1)):
        merged = result([parts[place] for place in order], totals)
        for name, values in whole.metrics.items():
            np.testing.assert_allclose(merged.metrics[name], values, rtol=1e-9, err_msg=name)
        assert merged.report == pytest.approx(whole.report)


def test_weights_of_one_leave_nothing_but_the_names_to_tell() -> None:
    ones = Part(IDS, IDS, LABELS, SCORES, np.ones(SIZE))
    for totals in (BINARY, REGRESSION):
        found = result([ones], totals).metrics
        weighted = {name for name in found if name.startswith("weighted_")}
        assert weighted
        for name in weighted:
            np.testing.assert_allclose(found[name], found[name.removeprefix("weighted_")], rtol=1e-9, err_msg=name)


def test_real_numbers_are_weighted_as_in_scikit_learn_and_not_ranked() -> None:
    found = result([WHOLE], REGRESSION).metrics
    squared = sklearn_metrics.mean_squared_error(LABELS, SCORES, sample_weight=WEIGHTS)
    assert found["weighted_rmse"][0] == pytest.approx(math.sqrt(squared))
    absolute = sklearn_metrics.mean_absolute_error(LABELS, SCORES, sample_weight=WEIGHTS)
    assert found["weighted_mae"][0] == pytest.approx(absolute)
    assert found["weighted_calibration"][0] == pytest.approx((WEIGHTS * SCORES).sum() / (WEIGHTS * LABELS).sum())
    assert "weighted_rank_correlation" not in found
    assert "rank_correlation" in found


def test_labels_of_one_class_among_those_with_a_weight_leave_the_weighted_metric_undefined() -> None:
    part = Part(IDS[:4], IDS[:4], np.array([0.0, 1, 0, 0]), SCORES[:4], np.array([1.0, 0, 2, 1]))
    found = result([part])
    assert math.isnan(found.metrics["weighted_auc"][0])
    assert not math.isnan(found.metrics["auc"][0])
    assert (found.report["sum_of_weights"], found.report["weighted_mean_label"]) == (4, 0)
    nothing = result([Part(part.ids, part.units, part.labels, part.scores, np.zeros(4))])
    assert all(math.isnan(values[0]) for name, values in nothing.metrics.items() if name.startswith("weighted_"))
    assert nothing.report["sum_of_weights"] == 0
