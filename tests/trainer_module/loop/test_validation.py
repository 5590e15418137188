"""Validation metrics against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import mean_squared_error, roc_auc_score

from sangam.trainer_module.loop.validation import Auc, Rmse

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rate", [0.5, 0.002])
def test_auc_over_batches_and_ranks_equals_scikit_learn(rate: float) -> None:
    generator = np.random.default_rng(0)
    labels = (generator.random(50_000) < rate).astype(np.float32)
    logits = (generator.normal(size=50_000) + labels + np.log(rate)).astype(np.float32)
    ranks = [Auc(), Auc()]
    for position, start in enumerate(range(0, 50_000, 777)):
        ranks[position % 2].add(labels[start : start + 777], logits[start : start + 777])
    assert ranks[0].value(ranks[0].totals + ranks[1].totals) == pytest.approx(roc_auc_score(labels, logits), abs=1e-4)


def test_auc_of_one_class_is_undefined_and_extreme_logits_count() -> None:
    metric = Auc()
    metric.add(np.zeros(3), np.array([-1e9, 0.0, 1e9]))
    assert np.isnan(metric.value(metric.totals))
    metric.add(np.ones(1), np.array([1e9]))
    assert metric.value(metric.totals) == pytest.approx((2 + 0.5) / 3)


def test_rmse_equals_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    labels, predictions = generator.normal(size=(2, 1000))
    metric = Rmse()
    metric.add(labels[:300], predictions[:300])
    metric.add(labels[300:], predictions[300:])
    assert metric.value(metric.totals) == pytest.approx(mean_squared_error(labels, predictions) ** 0.5)
    assert np.isnan(metric.value(np.zeros(2)))


def test_masked_examples_take_no_part() -> None:
    nan = float("nan")
    auc, rmse = Auc(), Rmse()
    auc.add(np.array([1.0, nan, 0.0, 0.0]), np.array([0.5, -9.0, 0.0, 1.0]))
    assert auc.value(auc.totals) == 0.5
    rmse.add(np.array([1.0, nan, 3.0]), np.array([1.0, 9.0, 5.0]))
    assert rmse.value(rmse.totals) == pytest.approx(2**0.5)
