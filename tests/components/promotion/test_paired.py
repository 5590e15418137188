"""Metrics of two versions on the same examples agree with scikit-learn, and their errors with a bootstrap by user."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sangam.components.promotion.paired import Scored, aucs, calibrations
from tests.components.promotion.worlds import USERS, world

REPLICATES = 300


def test_the_difference_of_the_auc_is_scikit_learns() -> None:
    scored = world(1, 2000)
    scored = Scored(scored.labels, scored.live.round(2), scored.shadow.round(2), scored.users)  # With ties.
    found = aucs(scored)
    assert found is not None
    live, shadow = (roc_auc_score(scored.labels, scores) for scores in (scored.live, scored.shadow))
    assert (found.live, found.shadow) == pytest.approx((live, shadow), abs=1e-12)
    assert found.difference.value == pytest.approx(shadow - live, abs=1e-12)


def test_errors_agree_with_a_bootstrap_by_user_and_not_with_one_by_example() -> None:
    scored = world(5, 1500, bias=0.3, of_user=1.0)
    draws = np.random.default_rng(3)
    by_user, by_example = np.zeros((REPLICATES, 3)), np.zeros(REPLICATES)
    rows_of = [np.flatnonzero(scored.users == user) for user in range(USERS)]
    for number in range(REPLICATES):
        chosen = np.concatenate([rows_of[user] for user in draws.integers(0, USERS, USERS)])
        by_user[number] = _values(scored, chosen)
        by_example[number] = _values(scored, draws.integers(0, len(scored.labels), len(scored.labels)))[0]
    auc, calibrated = aucs(scored), calibrations(scored)
    assert auc is not None
    assert calibrated is not None
    found = [each.standard_error for each in (auc.difference, calibrated.shadow, calibrated.excess)]
    assert found == pytest.approx(by_user.std(axis=0), rel=0.15)
    assert by_example.std() < 0.8 * auc.difference.standard_error


def _values(scored: Scored, rows: np.ndarray) -> tuple[float, float, float]:
    chosen = Scored(scored.labels[rows], scored.live[rows], scored.shadow[rows], scored.users[rows])
    auc, calibrated = aucs(chosen), calibrations(chosen)
    assert auc is not None
    assert calibrated is not None
    return auc.difference.value, calibrated.shadow.value, calibrated.excess.value


def test_calibration_is_predicted_over_observed() -> None:
    found = calibrations(_scored([1, 0, 0, 1], [0.5, 0.5, 0.5, 0.5], [0.25, 0.25, 0.25, 0.25]))
    assert found is not None
    assert (found.live, found.shadow.value, found.excess.value) == pytest.approx((0, -np.log(2), np.log(2)))


def test_what_cannot_be_measured_is_none() -> None:
    assert aucs(_scored([1, 1], [0.1, 0.2], [0.1, 0.2])) is None
    assert calibrations(_scored([0, 0], [0.1, 0.2], [0.1, 0.2])) is None
    assert calibrations(_scored([1, 0], [-0.1, 0.0], [0.1, 0.2])) is None
    [one_user] = [aucs(Scored(*map(np.array, ([1.0, 0.0], [0.2, 0.1], [0.1, 0.2])), np.zeros(2, np.int64)))]
    assert one_user is not None
    assert one_user.difference == (-1.0, np.inf)


def _scored(labels: list[float], live: list[float], shadow: list[float]) -> Scored:
    return Scored(np.array(labels, float), np.array(live), np.array(shadow), np.arange(len(labels)))
