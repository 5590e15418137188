"""What is kept of the examples of a slice while they are counted, and the metrics that follow from it.

Everything is counted 1 + replicates times: as it is, and as each replicate of the bootstrap weighs it. Size is bounded
however many examples there are.

Arrays carry shape suffixes: N examples, R for 1 + replicates, of which the first is the data as they are.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from components.evaluator.bootstrap import weights
from components.evaluator.totals_histogram import Floats, Histogram, areas, calibration_buckets, ratio
from components.evaluator.totals_ranks import RankSample

_SMALLEST_PROBABILITY = 1e-7
"""Probabilities are at least this far from 0 and 1 in the log loss, as in Keras: one sure mistake costs 16, not inf."""
_REPLICATE_BUCKETS = 2048
"""Buckets of the replicates' histogram at most, 1.7 MB for 100 of them. Scores over 10 units of log-odds are then told
apart when they differ by about 0.5 %, which moves a replicate by a thousandth of the metric's standard error."""
_CHUNK = 8192
"""Examples that are weighed at once."""

Units = NDArray[np.uint64]


@dataclass(frozen=True)
class Part:
    """Examples of one task and one model.

    Attributes:
        ids: hash of each example.
        units: hash of what the bootstrap draws.
        labels: float64.
        scores: float64; anything, NaN and infinity too.
    """

    ids: Units
    units: Units
    labels: Floats
    scores: Floats

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self.ids)

    def where(self, rows: NDArray[np.generic] | slice) -> "Part":
        """Returns some of the examples."""
        return Part(self.ids[rows], self.units[rows], self.labels[rows], self.scores[rows])


def joined(parts: list[Part]) -> Part:
    """Returns the examples of all parts."""
    if len(parts) == 1:
        return parts[0]
    names = ("ids", "units", "labels", "scores")
    return Part(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass
class Sums:
    """Weighted sums over examples with finite label and score, and the number of the others.

    Attributes:
        columns: how many values are summed.
        replicates: of the bootstrap.
        num_examples: all, however they are.
        labels: sum of all labels.
        num_bad_scores: scores that are not finite.
        values: [columns, R].
    """

    columns: int
    replicates: int
    num_examples: int = 0
    labels: float = 0.0
    num_bad_scores: int = 0
    values: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Begins empty."""
        self.values = np.zeros((self.columns, 1 + self.replicates))

    def count(self, part: Part) -> Part:
        """Counts the examples and returns those with finite numbers."""
        is_scored = np.isfinite(part.scores)
        self.num_examples += len(part)
        self.labels += float(part.labels.sum())
        self.num_bad_scores += int((~is_scored).sum())
        is_good = is_scored & np.isfinite(part.labels)
        return part if is_good.all() else part.where(is_good)

    def merge(self, other: "Sums") -> None:
        """Adds the sums over other examples."""
        self.num_examples += other.num_examples
        self.labels += other.labels
        self.num_bad_scores += other.num_bad_scores
        self.values = self.values + other.values

    @property
    def is_defined(self) -> bool:
        """Whether every label and score is a finite number: otherwise no metric means anything."""
        return self.num_bad_scores == 0 and bool(np.isfinite(self.labels))

    def report(self, scores: float) -> dict[str, float]:
        """Returns what is told of every task, given the sum of the scores."""
        count = self.num_examples
        return {
            "num_examples": float(count),
            "mean_label": self.labels / count if count else np.nan,
            "mean_prediction": scores / count if count and self.is_defined else np.nan,
            "non_finite": self.num_bad_scores / count if count else np.nan,
        }


class BinaryTotals:
    """Totals of examples with a label of 0 or 1 and a score in [0, 1]."""

    def __init__(self, replicates: int, seed: int) -> None:
        """Begins empty."""
        self.sums = Sums(4, replicates)
        self.seed = seed
        self.exact = Histogram(replicates=1)
        self.drawn = Histogram(replicates=1 + replicates, limit=_REPLICATE_BUCKETS) if replicates else self.exact

    def add(self, part: Part) -> None:
        """Counts examples."""
        part = self.sums.count(part)
        for start in range(0, len(part), _CHUNK):
            self._add(part.where(slice(start, start + _CHUNK)))

    def _add(self, part: Part) -> None:
        is_positive = part.labels > 0
        probabilities = np.clip(part.scores, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
        losses = -np.log(np.where(is_positive, probabilities, 1 - probabilities))
        weights_NR = weights(part.units, self.sums.replicates, self.seed)
        self.sums.values += _weighted([np.ones(len(part)), part.labels, part.scores, losses], weights_NR)
        self.exact.add(part.scores, is_positive, weights_NR[:, :1])
        if self.drawn is not self.exact:
            self.drawn.add(part.scores, is_positive, weights_NR)

    def merge(self, other: "BinaryTotals") -> None:
        """Adds the totals of other examples."""
        self.sums.merge(other.sums)
        self.exact.merge(other.exact)
        if self.drawn is not self.exact:
            self.drawn.merge(other.drawn)

    def metrics(self) -> dict[str, Floats]:
        """Returns each metric as it is and per replicate, [R]; NaN where it is undefined."""
        counts, labels, scores, losses = self.sums.values
        log_loss, rate = ratio(losses, counts), ratio(labels, counts)
        metrics = {
            "log_loss": log_loss,
            "normalised_entropy": ratio(log_loss, _entropy(rate)),
            "calibration": ratio(scores, labels),
        }
        of_exact = _of_order(self.exact)
        of_drawn = of_exact if self.drawn is self.exact else _of_order(self.drawn)
        for name, drawn, exact in zip(("auc", "pr_auc", "calibration_error"), of_drawn, of_exact, strict=True):
            # Wide buckets shift all replicates alike: by what they shift the examples as they are.
            metrics[name] = np.concatenate([exact, np.clip(drawn[1:] + (exact - drawn[:1]), 0, None)])
        return metrics if self.sums.is_defined else {name: values * np.nan for name, values in metrics.items()}

    def report(self) -> dict[str, float]:
        """Returns counts and means."""
        return self.sums.report(float(self.sums.values[2, 0]))

    def buckets(self) -> list[dict[str, float]]:
        """Returns the calibration by tenths of the examples; empty where it is undefined."""
        if not self.sums.is_defined or not self.sums.num_examples:
            return []
        predictions, positives, rows = (values[:, 0] for values in calibration_buckets(self.exact))
        return [
            {"mean_prediction": prediction / count, "mean_label": positive / count, "num_examples": count}
            for prediction, positive, count in zip(predictions.tolist(), positives.tolist(), rows.tolist(), strict=True)
            if count
        ]


class RegressionTotals:
    """Totals of examples with a real label and a real score."""

    def __init__(self, replicates: int, seed: int) -> None:
        """Begins empty."""
        self.sums = Sums(5, replicates)
        self.seed = seed
        self.sample = RankSample()

    def add(self, part: Part) -> None:
        """Counts examples."""
        part = self.sums.count(part)
        self.sample.add(part.ids, part.units, part.labels, part.scores)
        for start in range(0, len(part), _CHUNK):
            chunk = part.where(slice(start, start + _CHUNK))
            errors = chunk.scores - chunk.labels
            columns = [np.ones(len(chunk)), chunk.labels, chunk.scores, errors**2, np.abs(errors)]
            self.sums.values += _weighted(columns, weights(chunk.units, self.sums.replicates, self.seed))

    def merge(self, other: "RegressionTotals") -> None:
        """Adds the totals of other examples."""
        self.sums.merge(other.sums)
        self.sample.merge(other.sample)

    def metrics(self) -> dict[str, Floats]:
        """Returns each metric as it is and per replicate, [R]; NaN where it is undefined."""
        counts, labels, scores, squares, distances = self.sums.values
        metrics = {
            "rmse": np.sqrt(ratio(squares, counts)),
            "mae": ratio(distances, counts),
            "calibration": ratio(scores, labels),
        }
        if not self.sums.is_defined:
            return {name: values * np.nan for name, values in metrics.items()} | {"rank_correlation": counts * np.nan}
        return metrics | {"rank_correlation": self.sample.correlations(self.sums.replicates, self.seed)}

    def report(self) -> dict[str, float]:
        """Returns counts and means."""
        return self.sums.report(float(self.sums.values[2, 0]))

    def buckets(self) -> list[dict[str, float]]:
        """Returns nothing: tenths are of probabilities."""
        return []


Totals = BinaryTotals | RegressionTotals


def _weighted(columns: list[Floats], weights_NR: NDArray[np.uint8]) -> Floats:
    return np.stack(columns) @ weights_NR.astype(np.float64)


def _entropy(rate: Floats) -> Floats:
    """Returns the log loss of predicting the base rate (He et al., Practical Lessons from Predicting Clicks, 2014)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    return np.where((rate > 0) & (rate < 1), entropy, 0.0)


def _of_order(histogram: Histogram) -> tuple[Floats, Floats, Floats]:
    """Returns AUC, average precision and calibration error: the mean distance of tenths' predictions and labels."""
    predictions, positives, rows = calibration_buckets(histogram)
    error = ratio(np.abs(predictions - positives).sum(axis=0), rows.sum(axis=0))
    return (*areas(histogram), error)
