"""What is kept of the examples of a slice while they are counted, and the metrics that follow from it.

TFMA's own AUC cuts [0, 1] into 10,000 equal buckets, whatever `num_thresholds` says: the scores of an event that
happens once in 2,500 impressions share a dozen of them, and the AUC is wrong in the third digit. It also reports 0 for
labels of one class, where an AUC means nothing. Here buckets have equal width in log-odds.
"""

import math
from dataclasses import dataclass, field

BUCKETS_PER_UNIT = 10_000
"""Buckets per unit of log-odds: scores that share a bucket differ by less than 0.01 %."""
_SMALLEST_SCORE = 1e-12
"""Scores are ranked as at least this far from 0 and 1, far below what float32 tells apart from 1."""
_SMALLEST_PROBABILITY = 1e-7
"""Probabilities are at least this far from 0 and 1 in the log loss, as in Keras: one sure mistake costs 16, not inf."""


@dataclass
class BinaryTotals:
    """Sums over examples with a label of 0 or 1 and a score in [0, 1].

    Attributes:
        counts: bucket of the score to [negatives, positives]; only the buckets met are held.
    """

    num_examples: int = 0
    labels: float = 0.0
    scores: float = 0.0
    loss: float = 0.0
    counts: dict[int, list[int]] = field(default_factory=dict)

    def add(self, label: float, score: float) -> None:
        """Counts an example."""
        is_positive = label > 0
        self.num_examples += 1
        self.labels += label
        self.scores += score
        if math.isnan(score):
            return  # The sum of the scores is NaN now, and so is every metric.
        probability = min(max(score, _SMALLEST_PROBABILITY), 1 - _SMALLEST_PROBABILITY)
        self.loss -= math.log(probability if is_positive else 1 - probability)
        ranked = min(max(score, _SMALLEST_SCORE), 1 - _SMALLEST_SCORE)
        bucket = math.floor(math.log(ranked / (1 - ranked)) * BUCKETS_PER_UNIT)
        self.counts.setdefault(bucket, [0, 0])[is_positive] += 1

    def merge(self, other: "BinaryTotals") -> None:
        """Adds the totals of other examples."""
        self.num_examples += other.num_examples
        self.labels += other.labels
        self.scores += other.scores
        self.loss += other.loss
        for bucket, (negatives, positives) in other.counts.items():
            count = self.counts.setdefault(bucket, [0, 0])
            count[0] += negatives
            count[1] += positives

    def metrics(self) -> dict[str, float]:
        """Returns the metrics; NaN where one is undefined."""
        is_scored = math.isfinite(self.scores)
        return {
            "auc": self._area() if is_scored else math.nan,
            "log_loss": _ratio(self.loss, self.num_examples) if is_scored else math.nan,
            "calibration": _ratio(self.scores, self.labels),
            "mean_label": _ratio(self.labels, self.num_examples),
            "num_examples": float(self.num_examples),
        }

    def _area(self) -> float:
        """Returns the share of (negative, positive) pairs that are in the right order, ties counted half.

        Reference: Fawcett, An introduction to ROC analysis, 2006, section 7.
        """
        below = positives_so_far = 0
        in_order = 0.0
        for bucket in sorted(self.counts):
            negatives, positives = self.counts[bucket]
            in_order += positives * (below + negatives / 2)
            below += negatives
            positives_so_far += positives
        return _ratio(in_order, below * positives_so_far)


@dataclass
class RegressionTotals:
    """Sums over examples with a real label and a real score."""

    num_examples: int = 0
    labels: float = 0.0
    scores: float = 0.0
    squared_error: float = 0.0

    def add(self, label: float, score: float) -> None:
        """Counts an example."""
        self.num_examples += 1
        self.labels += label
        self.scores += score
        self.squared_error += (label - score) ** 2

    def merge(self, other: "RegressionTotals") -> None:
        """Adds the totals of other examples."""
        self.num_examples += other.num_examples
        self.labels += other.labels
        self.scores += other.scores
        self.squared_error += other.squared_error

    def metrics(self) -> dict[str, float]:
        """Returns the metrics; NaN where one is undefined."""
        return {
            "rmse": math.sqrt(_ratio(self.squared_error, self.num_examples)),
            "calibration": _ratio(self.scores, self.labels),
            "mean_label": _ratio(self.labels, self.num_examples),
            "num_examples": float(self.num_examples),
        }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
