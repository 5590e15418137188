"""Differences of two versions' metrics on the same examples, with standard errors by user.

Examples of one user are not independent, and the two versions score the same ones: the standard error is that of the
sums over each user of what each example adds to the difference, its influence. For the AUC these are the placement
values of DeLong, DeLong and Clarke-Pearson (Biometrics 1988), summed over clusters as by Obuchowski (Biometrics 1997).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Shape suffixes: N examples, P positives, Q negatives.


class Estimate(NamedTuple):
    """A value and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Scored:
    """Examples of one task that both versions scored.

    Attributes:
        labels: label of each example.
        live: what the live version predicted.
        shadow: what the version in the shadow predicted.
        users: number of each example's user, from 0.
    """

    labels: Floats
    live: Floats
    shadow: Floats
    users: Integers

    @property
    def num_users(self) -> int:
        """Number of users."""
        return len(np.unique(self.users))


@dataclass(frozen=True)
class Aucs:
    """The AUC of both versions, and the shadow's minus the live one's."""

    live: float
    shadow: float
    difference: Estimate


@dataclass(frozen=True)
class Calibrations:
    """ln(predicted / observed) of both versions.

    Attributes:
        live: of the live version.
        shadow: of the version in the shadow.
        excess: by how much the shadow's is farther from 0 than the live one's.
    """

    live: float
    shadow: Estimate
    excess: Estimate


def aucs(scored: Scored) -> Aucs | None:
    """Compares the AUC; None unless both labels are there. Labels are 0 and 1."""
    is_positive_N = scored.labels > 0
    if is_positive_N.all() or not is_positive_N.any():
        return None
    (live, live_N), (shadow, shadow_N) = (_auc(is_positive_N, each) for each in (scored.live, scored.shadow))
    return Aucs(live, shadow, _estimate(shadow - live, shadow_N - live_N, scored.users))


def calibrations(scored: Scored) -> Calibrations | None:
    """Compares the calibration; None unless the labels and the predictions have sums above 0."""
    observed, *predicted = (float(each.sum()) for each in (scored.labels, scored.live, scored.shadow))
    if not all(total > 0 for total in (observed, *predicted)):
        return None
    live, shadow = np.log(np.array(predicted) / observed)
    # The derivative of ln(predicted / observed) by an example's weight.
    live_N, shadow_N = (
        each / total - scored.labels / observed
        for each, total in zip((scored.live, scored.shadow), predicted, strict=True)
    )
    excess_N = np.sign(shadow) * shadow_N - np.sign(live) * live_N
    return Calibrations(
        float(live),
        _estimate(float(shadow), shadow_N, scored.users),
        _estimate(float(abs(shadow) - abs(live)), excess_N, scored.users),
    )


def _auc(is_positive_N: NDArray[np.bool_], scores_N: Floats) -> tuple[float, Floats]:
    """Returns the AUC, and the influence of each example."""
    scores_P, scores_Q = scores_N[is_positive_N], scores_N[~is_positive_N]
    above_P = _share_below(scores_Q, scores_P)
    auc = float(above_P.mean())
    influence_N = np.empty(len(scores_N))
    influence_N[is_positive_N] = (above_P - auc) / len(scores_P)
    influence_N[~is_positive_N] = (1 - _share_below(scores_P, scores_Q) - auc) / len(scores_Q)
    return auc, influence_N


def _share_below(others: Floats, scores: Floats) -> Floats:
    """Returns the share of others below each score; of equal ones half."""
    ordered = np.sort(others)
    twice = np.searchsorted(ordered, scores, side="left") + np.searchsorted(ordered, scores, side="right")
    share: Floats = twice / (2 * len(others))
    return share


def _estimate(value: float, influence_N: Floats, users: Integers) -> Estimate:
    """Returns a value with the standard error of the sums over users; infinite for a single user."""
    sums = np.bincount(users, weights=influence_N)
    size = len(np.unique(users))
    if size < 2:
        return Estimate(value, float("inf"))
    return Estimate(value, float(np.sqrt(size / (size - 1) * np.square(sums).sum())))
