"""Totals of a task with example weights: all metrics unweighted, and the weighted variants of some."""

from collections.abc import Callable
from typing import Any

from sangam.components.reports.curves import Curve
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.totals import Part, Sums
from sangam.components.steps.evaluator.metrics.totals_binary import BinaryTotals
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats
from sangam.components.steps.evaluator.metrics.totals_regression import RegressionTotals
from sangam.schemas.spec.metrics import SUM_OF_WEIGHTS, WEIGHTED, WEIGHTED_MEAN_LABEL


class WeightedTotals:
    """Two totals: in one each example counts once, in the other by its weight."""

    def __init__(self, new: Callable[..., Any], replicates: int, seed: int) -> None:
        """Starts empty; `new` creates the totals of the task's kind."""
        self.plain: BinaryTotals | RegressionTotals = new(replicates, seed)
        self.by_weight: BinaryTotals | RegressionTotals = new(replicates, seed, by_weight=True)

    @property
    def sums(self) -> Sums:
        """The sums of the unweighted totals."""
        return self.plain.sums

    def add(self, part: Part, draws: Draws) -> None:
        """Counts examples."""
        self.plain.add(part, draws)
        self.by_weight.add(part, draws)

    def merge(self, other: "WeightedTotals") -> None:
        """Adds the totals of other examples of the same kind of task."""
        self.plain.merge(other.plain)  # type: ignore[arg-type]
        self.by_weight.merge(other.by_weight)  # type: ignore[arg-type]

    def metrics(self) -> dict[str, Floats]:
        """Returns each metric of the data and of each replicate, [R]; NaN where it is undefined."""
        return self.plain.metrics() | {WEIGHTED + name: values for name, values in self.by_weight.metrics().items()}

    def report(self) -> dict[str, float]:
        """Returns counts and means, including those of the weights."""
        weights, labels = self.by_weight.sums.values[:2, 0].tolist()
        mean = labels / weights if weights else float("nan")
        return self.plain.report() | {SUM_OF_WEIGHTS: weights, WEIGHTED_MEAN_LABEL: mean}

    def buckets(self) -> list[dict[str, float]]:
        """Returns the calibration by tenths of the examples, each counting once."""
        return self.plain.buckets()

    def curve(self) -> Curve | None:
        """Returns the curves of the plain totals."""
        return self.plain.curve()
