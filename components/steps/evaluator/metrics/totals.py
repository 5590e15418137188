"""Common parts of all totals: the examples to count, and sums over them.

Every example is counted 1 + replicates times: once for the data, and by its draws for each replicate of the bootstrap.
The size does not grow with the number of examples.

Arrays carry shape suffixes: N examples, R for 1 + replicates, of which the first is the data itself.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.draws import Draws, Units
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats


@dataclass(frozen=True)
class Part:
    """Examples of one task and one model.

    Attributes:
        ids: hash of each example.
        units: hash of each example's bootstrap unit.
        labels: float64.
        scores: float32 or float64, possibly NaN or infinite.
        weights: finite float64 of at least 0; None for a task without weights.
    """

    ids: Units
    units: Units
    labels: Floats
    scores: NDArray[np.floating[Any]]
    weights: Floats | None = None

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self.ids)

    def where(self, rows: NDArray[np.generic] | slice) -> "Part":
        """Returns some of the examples."""
        weights = None if self.weights is None else self.weights[rows]
        return Part(self.ids[rows], self.units[rows], self.labels[rows], self.scores[rows], weights)


@dataclass
class Sums:
    """Weighted sums over examples with finite label and score, and the number of the others.

    Attributes:
        columns: number of summed values.
        replicates: replicates of the bootstrap.
        num_examples: number of all examples, finite or not.
        labels: sum of all labels.
        num_bad_scores: number of scores that are not finite.
        values: weighted sums, [columns, R].
    """

    columns: int
    replicates: int
    num_examples: int = 0
    labels: float = 0.0
    num_bad_scores: int = 0
    values: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Starts empty."""
        self.values = np.zeros((self.columns, 1 + self.replicates))

    def count(self, part: Part, draws: Draws) -> tuple[Part, Draws]:
        """Counts the examples and returns those with finite label and score, the scores as float64."""
        is_scored = np.isfinite(part.scores)
        self.num_examples += len(part)
        self.labels += float(part.labels.sum())
        self.num_bad_scores += int((~is_scored).sum())
        return finite(part, draws)

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


def finite(part: Part, draws: Draws) -> tuple[Part, Draws]:
    """Returns the examples with finite label and score, the scores as float64."""
    is_good = np.isfinite(part.scores) & np.isfinite(part.labels)
    if not is_good.all():
        part, draws = part.where(is_good), draws.where(is_good)
    return replace(part, scores=part.scores.astype(np.float64)), draws


def own_weights(part: Part, *, by_weight: bool) -> Floats | None:
    """Returns the examples' weights if each counts by its weight, None if each counts once."""
    if not by_weight:
        return None
    if part.weights is None:
        raise ValueError("by_weight: examples have no weights")
    return part.weights


def weighted(columns: list[NDArray[Any]], weights: Floats | None) -> list[NDArray[Any]]:
    """Returns the columns, times the examples' weights if there are any."""
    return columns if weights is None else [column * weights for column in columns]
