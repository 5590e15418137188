"""What the totals of all kinds of tasks have in common: examples to be counted, and weighted sums over them.

Everything is counted 1 + replicates times: as it is, and as each replicate of the bootstrap weighs it. Size is bounded
however many examples there are.

Arrays carry shape suffixes: N examples, R for 1 + replicates, of which the first is the data as they are.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.steps.evaluator.metrics.bootstrap import weights
from components.steps.evaluator.metrics.totals_histogram import Floats

CHUNK = 8192
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
        weights: finite float64 of at least 0, of a task with weights.
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


def times(part: Part, replicates: int, seed: int, *, by_weight: bool) -> NDArray[Any]:
    """Returns how often each example counts, or what it weighs then, as it is and in each replicate: [N, R]."""
    times_NR = weights(part.units, replicates, seed)
    if not by_weight:
        return times_NR
    if part.weights is None:
        raise ValueError("examples that count by their weight need one")
    return times_NR * part.weights[:, None]


def weighted(columns: list[Floats], weights_NR: NDArray[np.generic]) -> Floats:
    """Returns the sum of each column, [columns, R]."""
    return np.stack(columns) @ weights_NR.astype(np.float64)
