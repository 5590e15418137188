"""Scores the validation split: metrics as totals that add up over batches and ranks."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, assert_never

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask
from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch, then_empty
from sangam.trainer_module.loop.calibration import Counts, fit
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.progress import Progress

_BINS = 20_000
_LARGEST_LOGIT = 16.0


class Metric(Protocol):
    """A number computed from totals.

    Attributes:
        name: `auc` or `rmse`.
        reads_logits: whether the scores are logits; predictions otherwise.
        totals: sums over the examples so far, which add up over ranks.
    """

    name: str
    reads_logits: bool
    totals: NDArray[np.float64]

    def add(self, labels: NDArray[Any], scores: NDArray[Any]) -> None:
        """Adds a batch: labels [batch], scores [batch]. Examples whose label is NaN are ignored."""

    def value(self, totals: NDArray[np.float64]) -> float:
        """Returns the metric of totals, NaN where it is undefined."""


class Auc:
    """Area under the ROC curve from a histogram of logits; examples of one bin (0.0016 of a logit by default) count as
    ties."""

    name = "auc"
    reads_logits = True

    def __init__(self, bins: int = _BINS) -> None:
        """Takes the number of bins from -16 to 16."""
        self._bins = bins
        self.totals: NDArray[np.float64] = np.zeros([2, bins])

    def add(self, labels: NDArray[Any], scores: NDArray[Any]) -> None:
        """See `Metric`."""
        unit = (np.clip(scores, -_LARGEST_LOGIT, _LARGEST_LOGIT) / _LARGEST_LOGIT + 1.0) / 2.0
        bins = np.minimum((unit * self._bins).astype(np.int64), self._bins - 1)
        for label in (0, 1):
            self.totals[label] += np.bincount(bins[labels == label], minlength=self._bins)

    def value(self, totals: NDArray[np.float64]) -> float:
        """See `Metric`: the share of pairs in which the positive scores higher; ties count half."""
        negatives, positives = totals
        pairs = negatives.sum() * positives.sum()
        if pairs == 0:
            return float("nan")
        below = np.cumsum(negatives) - negatives
        return float(np.sum(positives * (below + negatives / 2.0)) / pairs)

    def counts(self, totals: NDArray[np.float64]) -> Counts:
        """Returns the examples by logit: the center of their bin."""
        middles = (np.arange(self._bins) + 0.5) / self._bins
        return Counts((2.0 * middles - 1.0) * _LARGEST_LOGIT, *totals)


class Rmse:
    """Root mean squared error."""

    name = "rmse"
    reads_logits = False

    def __init__(self) -> None:
        self.totals: NDArray[np.float64] = np.zeros([2])

    def add(self, labels: NDArray[Any], scores: NDArray[Any]) -> None:
        """See `Metric`."""
        errors = (labels - scores)[~np.isnan(labels)]
        self.totals += (np.sum(np.square(errors, dtype=np.float64)), len(errors))

    def value(self, totals: NDArray[np.float64]) -> float:
        """See `Metric`."""
        return float(np.sqrt(totals[0] / totals[1])) if totals[1] else float("nan")


def metric_of(task: Task) -> Metric:
    """Returns a task's metric, with totals of 0."""
    match task:
        case BinaryTask():
            return Auc()
        case RegressionTask() | WatchTimeTask():
            return Rmse()
        case _:
            assert_never(task)


class Validated(NamedTuple):
    """Results on the validation split.

    Attributes:
        metrics: {task: {"auc" or "rmse": value}}.
        calibrations: fitted calibrations, for calibrated tasks.
        examples: number of examples of all ranks.
    """

    metrics: dict[str, dict[str, float]]
    calibrations: dict[str, Calibration]
    examples: int


def validate(trainer: Trainer, batches: Iterable[Batch], progress: Progress, days: tuple[str, ...] = ()) -> Validated:
    """Scores batches of the validation split, which covers `days`, and fits calibrations. All ranks together."""
    metrics, num_validated = _scored(trainer, batches, progress)
    results, calibrations = {}, dict[str, Calibration]()
    for task, metric in metrics.items():
        results[task] = {metric.name: metric.value(metric.totals)}
        declared = trainer.ranker.spec.tasks[task]
        if isinstance(declared, BinaryTask) and isinstance(metric, Auc):
            fitted = fit(declared, metric.counts(metric.totals), days)
            calibrations |= {task: fitted} if fitted else {}
    return Validated(results, calibrations, num_validated)


def counts_by_logit(trainer: Trainer, batches: Iterable[Batch], progress: Progress) -> dict[str, Counts]:
    """Returns the examples of binary tasks that have any, by the model's uncalibrated logit. All ranks together."""
    scored, _ = _scored(trainer, batches, progress)
    counts = {task: metric.counts(metric.totals) for task, metric in scored.items() if isinstance(metric, Auc)}
    return {task: each for task, each in counts.items() if each.examples.any()}


def _scored(trainer: Trainer, batches: Iterable[Batch], progress: Progress) -> tuple[dict[str, Metric], int]:
    """Returns each task's metric, with equal totals on all ranks, and the number of examples of all ranks."""
    ranker, num_validated = trainer.ranker, 0
    metrics = {task: metric_of(ranker.spec.tasks[task]) for task in ranker.tasks}
    for batch in then_empty(batches, ranker.layout):
        num_examples = int(collectives.allreduce_sum(ranker.batch_size(batch), name="validation_examples"))
        if num_examples == 0:
            break
        num_validated += num_examples
        progress.beat()
        logits_BT = trainer.logits(batch)
        predictions, labels_BT = ranker.predictions(logits_BT), ranker.labels(batch).numpy()
        for column, (task, metric) in enumerate(metrics.items()):
            scores_B1 = logits_BT[:, column : column + 1] if metric.reads_logits else predictions[task]
            metric.add(labels_BT[:, column], scores_B1.numpy()[:, 0])
    for task, metric in metrics.items():
        # All ranks have the same totals, and therefore the same calibrations.
        metric.totals = collectives.allreduce_sum(tf.constant(metric.totals), name=f"metric_{task}").numpy()
    return metrics, num_validated
