"""Fits a binary task's calibration on the validation split: float64, from counts by logit, equal on all ranks.

Both kinds fit Platt's targets instead of labels: for P positives and N negatives, (P + 1) / (P + 2) for positives and
1 / (N + 2) for negatives, so that no probability becomes 0 or 1 (Platt: Probabilistic outputs for support vector
machines, 1999, section 2.2).
"""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec.tasks import BinaryTask, Isotonic, Platt
from sangam.trainer_module.losses import calibrated, correction

MOST_POINTS = 200
"""Maximum number of inner points of an isotonic calibration; each stands for at least 1 / 200 of the examples."""
LEAST_SLOPE = 0.01
"""Minimum slope of an isotonic calibration; with a smaller one, different float32 scores could become equal."""
LARGEST_SHIFT = 10.0
"""Largest shift of a calibration by its mean: odds of 22,000."""
_HALVINGS = 60
_MOST_STEPS = 100
_TOLERANCE = 1e-10
"""Tolerance of the gradient of the mean loss."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """Examples by logit.

    Attributes:
        logits: rising: [n].
        negatives: negative examples by logit: [n].
        positives: positive examples by logit: [n].
    """

    logits: Floats
    negatives: Floats
    positives: Floats

    @property
    def examples(self) -> Floats:
        """Examples with either label: [n]."""
        return self.negatives + self.positives

    def targets(self) -> Floats:
        """Returns the sums of Platt's targets: [n]."""
        num_negatives, num_positives = self.negatives.sum(), self.positives.sum()
        return self.positives * (num_positives + 1) / (num_positives + 2) + self.negatives / (num_negatives + 2)


def fit(task: BinaryTask, counts: Counts, days: tuple[str, ...]) -> Calibration | None:
    """Returns a task's calibration; the identity, with a reason, if none can be fitted; None if the task has none.

    Args:
        task: a binary task.
        counts: counts of the model's uncalibrated logits on the validation split.
        days: days of the split.
    """
    if task.calibration is None:
        return None
    is_there = counts.examples > 0
    logits = counts.logits[is_there] + correction(task)
    there = Counts(logits, counts.negatives[is_there], counts.positives[is_there])
    unfitted = Calibration(
        kind=task.calibration.kind,
        days=days,
        examples=int(there.examples.sum()),
        positives=int(there.positives.sum()),
    )
    if problem := _problem(there):
        return unfitted.model_copy(update={"problem": problem})
    match task.calibration:
        case Platt():
            slope, shift = platt(there)
            if slope < LEAST_SLOPE:
                problem = f"higher scores do not mean more positives there (got a slope of {slope:.3g})"
                return unfitted.model_copy(update={"problem": problem})
            return unfitted.model_copy(update={"calibrated": (shift,), "slope": slope})
        case Isotonic():
            points, values = isotonic(there)
            return unfitted.model_copy(update={"logits": tuple(points.tolist()), "calibrated": tuple(values.tolist())})
        case _:
            assert_never(task.calibration)


def mean_prediction(task: BinaryTask, fitted: Calibration, counts: Counts) -> float:
    """Returns the mean prediction of examples by the model's logit; there is one at least."""
    return _mean(_fitted_logits(task, fitted, counts), counts)


def with_mean(task: BinaryTask, fitted: Calibration, counts: Counts, mean: float) -> Calibration:
    """Returns a calibration with a constant added, by which the mean prediction of examples becomes `mean`.

    Args:
        task: a binary task.
        fitted: its calibration.
        counts: examples by the model's logit; one at least.
        mean: above 0 and below 1.
    """
    f, low, high = _fitted_logits(task, fitted, counts), -LARGEST_SHIFT, LARGEST_SHIFT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _mean(f + middle, counts) < mean else (low, middle)
    return fitted.model_copy(update={"calibrated": tuple(value + (low + high) / 2 for value in fitted.calibrated)})


def _fitted_logits(task: BinaryTask, fitted: Calibration, counts: Counts) -> Floats:
    found: Floats = calibrated(fitted, tf.constant(counts.logits + correction(task), tf.float64)).numpy()
    return found


def _mean(f: Floats, counts: Counts) -> float:
    return float((counts.examples * _sigmoid(f)).sum() / counts.examples.sum())


def _problem(counts: Counts) -> str:
    for name, number in (("positives", counts.positives.sum()), ("negatives", counts.negatives.sum())):
        if number == 0:
            return f"the validation split has no {name} (got {int(counts.examples.sum())} examples of the task)"
    return "all scores of the validation split are equal" if len(counts.logits) == 1 else ""


def platt(counts: Counts) -> tuple[float, float]:
    """Returns a and b of z' = a z + b; needs at least two logits.

    Newton's method with backtracking (Lin, Lin, Weng: A note on Platt's probabilistic outputs for support vector
    machines, Machine Learning 68, 2007, algorithm 1). The loss is convex; a may be 0 or less.
    """
    z, examples, targets = counts.logits, counts.examples, counts.targets()
    total = examples.sum()
    inputs = np.stack([z, np.ones(len(z))])

    def loss(weights: Floats) -> float:
        f = weights @ inputs
        return float((examples * np.logaddexp(0.0, f) - targets * f).sum() / total)

    weights, value = np.array([1.0, 0.0]), loss(np.array([1.0, 0.0]))
    for _ in range(_MOST_STEPS):
        p = _sigmoid(weights @ inputs)
        gradient = inputs @ (examples * p - targets) / total
        if np.abs(gradient).max() < _TOLERANCE:
            break
        hessian = (inputs * (examples * p * (1 - p) / total)) @ inputs.T + 1e-12 * np.eye(2)
        step, length = np.linalg.solve(hessian, gradient), 1.0
        while (lower := loss(weights - length * step)) > value - 1e-4 * length * float(gradient @ step):
            length /= 2
            if length < _TOLERANCE:
                return float(weights[0]), float(weights[1])
        weights, value = weights - length * step, lower
    return float(weights[0]), float(weights[1])


def isotonic(counts: Counts) -> tuple[Floats, Floats]:
    """Returns points: rising logits and their calibrated logits, which rise by `LEAST_SLOPE` or more: each [n].

    Pool adjacent violators over at most `MOST_POINTS` groups of equally many examples, as in scikit-learn's
    `IsotonicRegression`. Each level becomes a point: its mean logit, and the logit of its rate. The calibration is
    linear between points, so it rises strictly where the fit is level. Beyond them, to the lowest and the highest
    logit, its slope is `LEAST_SLOPE`: with overconfident scores, the last level is wide.
    """
    examples, targets = counts.examples, counts.targets()
    middles = np.cumsum(examples) - examples / 2
    groups = np.unique((MOST_POINTS * middles / examples.sum()).astype(np.int64), return_inverse=True)[1]
    sums = np.stack([np.bincount(groups, values) for values in (examples, targets, examples * counts.logits)], axis=1)
    levels: list[Floats] = []
    for level in sums:
        levels.append(level)
        while len(levels) > 1 and levels[-2][1] * levels[-1][0] >= levels[-1][1] * levels[-2][0]:
            levels[-2:] = [levels[-2] + levels[-1]]
    number, target, logit = np.stack(levels, axis=1)
    points, values = logit / number, np.log(target) - np.log(number - target)
    kept = [0]
    for place in range(1, len(points)):
        if values[place] - values[kept[-1]] >= LEAST_SLOPE * (points[place] - points[kept[-1]]):
            kept.append(place)
    points, values = points[kept], values[kept]
    ends = counts.logits[[0, -1]]
    outside = values[[0, -1]] + LEAST_SLOPE * (ends - points[[0, -1]])
    is_new = ends != points[[0, -1]]
    points = np.concatenate([ends[:1][is_new[:1]], points, ends[1:][is_new[1:]]])
    return points, np.concatenate([outside[:1][is_new[:1]], values, outside[1:][is_new[1:]]])


def _sigmoid(f: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -f))
