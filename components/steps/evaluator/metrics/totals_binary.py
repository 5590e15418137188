"""Totals and metrics of a binary task."""

import numpy as np

from sangam.components.reports.curves import Curve
from sangam.components.steps.evaluator.metrics.curves import curve_of
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.histogram_metrics import Ordered, areas, calibration_buckets
from sangam.components.steps.evaluator.metrics.totals import Part, Sums, own_weights, weighted
from sangam.components.steps.evaluator.metrics.totals_histogram import (
    Floats,
    Histogram,
    bucketed,
    ratio,
)

_SMALLEST_PROBABILITY = 1e-7
"""The log loss clips probabilities this far from 0 and 1, as Keras does: a wrong 0 or 1 costs 16, not infinity."""
_REPLICATE_BUCKETS = 2048
"""Maximum buckets of the replicates' histogram: 1.7 MB for 100 replicates. Over 10 units of log-odds they separate
scores that differ by about 0.5 %; the error of a replicate is a thousandth of the metric's standard error."""


class BinaryTotals:
    """Totals of examples with a label of 0 or 1 and a score in [0, 1]."""

    def __init__(self, replicates: int, seed: int, *, by_weight: bool = False) -> None:
        """Starts empty; with `by_weight` each example counts by its weight instead of once."""
        self.sums = Sums(4, replicates)
        self.seed = seed
        self.by_weight = by_weight
        dtype = np.float64 if by_weight else np.uint32
        self.exact = self.drawn = Histogram(replicates=1, dtype=dtype)
        if replicates:
            self.drawn = Histogram(replicates=1 + replicates, limit=_REPLICATE_BUCKETS, dtype=dtype)

    def add(self, part: Part, draws: Draws) -> None:
        """Counts examples."""
        part, draws = self.sums.count(part, draws)
        if not len(part):
            return
        own = own_weights(part, by_weight=self.by_weight)
        is_positive = part.labels > 0
        probabilities = np.clip(part.scores, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
        losses = -np.log(np.where(is_positive, probabilities, 1 - probabilities))
        self.sums.values += draws.summed(weighted([np.ones(len(part)), part.labels, part.scores, losses], own))
        examples = bucketed(part.scores)
        self.exact.add(examples, part.scores, is_positive, draws, own)
        if self.drawn is not self.exact:
            self.drawn.add(examples, part.scores, is_positive, draws, own)

    def merge(self, other: "BinaryTotals") -> None:
        """Adds the totals of other examples."""
        self.sums.merge(other.sums)
        self.exact.merge(other.exact)
        if self.drawn is not self.exact:
            self.drawn.merge(other.drawn)

    def metrics(self) -> dict[str, Floats]:
        """Returns each metric of the data and of each replicate, [R]; NaN where it is undefined."""
        counts, labels, scores, losses = self.sums.values
        log_loss, rate = ratio(losses, counts), ratio(labels, counts)
        metrics = {
            "log_loss": log_loss,
            "normalized_entropy": ratio(log_loss, _entropy(rate)),
            "calibration": ratio(scores, labels),
        }
        of_exact = _of_order(self.exact)
        of_drawn = of_exact if self.drawn is self.exact else _of_order(self.drawn)
        for name, drawn, exact in zip(("auc", "pr_auc", "calibration_error"), of_drawn, of_exact, strict=True):
            # Wide buckets shift all replicates equally, by as much as they shift the metric of the data.
            metrics[name] = np.concatenate([exact, np.clip(drawn[1:] + (exact - drawn[:1]), 0, None)])
        metrics["calibration_error"] = _unbiased(metrics["calibration_error"])
        return metrics if self.sums.is_defined else {name: values * np.nan for name, values in metrics.items()}

    def report(self) -> dict[str, float]:
        """Returns counts and means."""
        return self.sums.report(float(self.sums.values[2, 0]))

    def buckets(self) -> list[dict[str, float]]:
        """Returns the calibration by tenths of the examples; empty if undefined."""
        if not self.sums.is_defined or not self.sums.num_examples:
            return []
        predictions, positives, rows = (values[:, 0] for values in calibration_buckets(Ordered.of(self.exact)))
        return [
            {"mean_prediction": prediction / count, "mean_label": positive / count, "num_examples": count}
            for prediction, positive, count in zip(predictions.tolist(), positives.tolist(), rows.tolist(), strict=True)
            if count
        ]

    def curve(self) -> Curve | None:
        """Returns the curves of the task; None if undefined."""
        return curve_of(self.exact) if self.sums.is_defined else None


def _entropy(rate: Floats) -> Floats:
    """Returns the log loss of predicting the base rate (He et al., Practical Lessons from Predicting Clicks, 2014)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    return np.where((rate > 0) & (rate < 1), entropy, 0.0)


def _of_order(histogram: Histogram) -> tuple[Floats, Floats, Floats]:
    """Returns AUC, average precision, and calibration error: the mean distance of prediction and label over tenths."""
    counts = Ordered.of(histogram)
    predictions, positives, rows = calibration_buckets(counts)
    error = ratio(np.abs(predictions - positives).sum(axis=0), rows.sum(axis=0))
    return (*areas(counts), error)


def _unbiased(replicates: Floats) -> Floats:
    """Shifts the replicates so that their mean is the metric of the data, which comes first.

    Repeated examples are noisier, and noise increases a mean of distances: all replicates of a well calibrated model
    would exceed its metric.
    """
    drawn = replicates[1:]
    mean = np.mean(drawn[np.isfinite(drawn)]) if np.isfinite(drawn).any() else np.nan
    return np.concatenate([replicates[:1], np.clip(drawn + (replicates[0] - mean), 0, None)])
