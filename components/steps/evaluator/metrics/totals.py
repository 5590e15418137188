"""Common parts of all totals: the examples to count, and weighted sums over them.

Everything is counted 1 + replicates times: unweighted, and with the weights of each bootstrap replicate. The size does
not grow with the number of examples.

Arrays carry shape suffixes: N examples, R for 1 + replicates, of which the first is the data itself.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.steps.evaluator.metrics.bootstrap import weights
from components.steps.evaluator.metrics.totals_histogram import Floats

CHUNK = 8192
"""Examples that are counted at once."""

Units = NDArray[np.uint64]


@dataclass(frozen=True)
class Part:
    """Examples of one task and one model.

    Attributes:
        ids: hash of each example.
        units: hash of each example's bootstrap unit.
        labels: float64.
        scores: float64, possibly NaN or infinite.
        weights: finite float64 of at least 0; None for a task without weights.
    """

    ids: Units
    units: Units
    labels: Floats
    scores: Floats
    weights: Floats | None = None

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self.ids)

    def where(self, rows: NDArray[np.generic] | slice) -> "Part":
        """Returns some of the examples."""
        weights = None if self.weights is None else self.weights[rows]
        return Part(self.ids[rows], self.units[rows], self.labels[rows], self.scores[rows], weights)


def joined(parts: list[Part]) -> Part:
    """Returns the examples of all parts."""
    if len(parts) == 1:
        return parts[0]
    names = ["ids", "units", "labels", "scores", *(["weights"] if parts[0].weights is not None else [])]
    return Part(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass
class Sums:
    """Weighted sums over examples with finite label and score, and the number of the others.

    Attributes:
        columns: number of summed values.
        replicates: of the bootstrap.
        num_examples: all, finite or not.
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
        """Counts the examples and returns those with finite label and score."""
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
        """Whether all labels and scores are finite: otherwise every metric is undefined."""
        return self.num_bad_scores == 0 and bool(np.isfinite(self.labels))

    def report(self, scores: float) -> dict[str, float]:
        """Returns the counts and means of any task, given the sum of the scores."""
        count = self.num_examples
        return {
            "num_examples": float(count),
            "mean_label": self.labels / count if count else np.nan,
            "mean_prediction": scores / count if count and self.is_defined else np.nan,
            "non_finite": self.num_bad_scores / count if count else np.nan,
        }


def times(part: Part, replicates: int, seed: int, *, by_weight: bool) -> NDArray[Any]:
    """Returns how often each example counts in the data and each replicate, times its weight if `by_weight`: [N, R]."""
    times_NR = weights(part.units, replicates, seed)
    if not by_weight:
        return times_NR
    if part.weights is None:
        raise ValueError("by_weight: examples have no weights")
    return times_NR * part.weights[:, None]


def weighted(columns: list[Floats], weights_NR: NDArray[np.generic]) -> Floats:
    """Returns the sum of each column, [columns, R]."""
    return np.stack(columns) @ weights_NR.astype(np.float64)
