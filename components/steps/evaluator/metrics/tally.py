"""Beam's accumulator for a slice: the examples themselves while they are few, then totals; and sums over groups."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from components.steps.evaluator.metrics.group_metrics import MeanSums
from components.steps.evaluator.metrics.totals import Part, joined
from components.steps.evaluator.metrics.totals_binary import BinaryTotals
from components.steps.evaluator.metrics.totals_histogram import Floats
from components.steps.evaluator.metrics.totals_regression import RegressionTotals
from components.steps.evaluator.metrics.totals_weighted import WeightedTotals

Totals = BinaryTotals | RegressionTotals | WeightedTotals

_MOST_WAITING = 65_536
"""Examples kept before they are counted: 2 MB, about the size of the totals."""
_COUNTS = {"gauc": ("num_groups", "num_groups_skipped"), "ndcg": ("num_lists", "num_lists_skipped")}
"""Names of the two counts of groups that come with a metric."""


@dataclass(frozen=True)
class Result:
    """The metrics of one task of one model on one slice.

    Attributes:
        metrics: of the data, then of each replicate; NaN where undefined.
        report: counts and means.
        buckets: calibration by tenths of the examples.
    """

    metrics: dict[str, Floats]
    report: dict[str, float]
    buckets: list[dict[str, float]]


class Tally:
    """Counts parts of examples and sums over groups, in any order."""

    def __init__(self, totals: Callable[[int, int], Totals], replicates: int, seed: int) -> None:
        """Begins empty.

        Args:
            totals: makes empty totals from replicates and seed.
            replicates: of the bootstrap.
            seed: of the bootstrap.
        """
        self._new_totals = totals
        self._replicates = replicates
        self._seed = seed
        self._waiting: list[Part] = []
        self._num_waiting = 0
        self._totals: Totals | None = None
        self._means: dict[str, MeanSums] = {}

    def add(self, element: Part | dict[str, MeanSums]) -> None:
        """Counts examples, or adds sums over groups."""
        if isinstance(element, Part):
            self._wait([element])
        else:
            for name, sums in element.items():
                self._means[name] = self._means[name].plus(sums) if name in self._means else sums

    def merge(self, other: "Tally") -> None:
        """Adds another tally."""
        self._wait(other._waiting)
        if other._totals is not None:
            if self._totals is None:
                self._totals = self._new_totals(self._replicates, self._seed)
            # Both have the same class, which the union cannot express.
            self._totals.merge(other._totals)  # type: ignore[arg-type]
        self.add(other._means)

    def compact(self) -> None:
        """Joins the uncounted examples, so that Beam sends one array of each."""
        if self._waiting:
            self._waiting = [joined(self._waiting)]

    def result(self, least_examples: int) -> Result:
        """Returns the metrics, without replicates below `least_examples`."""
        replicates = self._replicates if self._totals or self._num_waiting >= least_examples else 0
        totals = self._totals or self._new_totals(replicates, self._seed)
        self._totals = totals
        self._count()
        metrics, report = totals.metrics(), totals.report()
        for name, sums in self._means.items():
            defined = 1.0 if totals.sums.is_defined else np.nan
            metrics[name] = sums.mean()[: 1 + replicates] * defined
            for count, value in zip(_COUNTS.get(name.split("_")[0], ()), (sums.counted, sums.skipped), strict=False):
                report[count] = float(value)
        return Result(metrics, report, totals.buckets())

    def _wait(self, parts: list[Part]) -> None:
        self._waiting += parts
        self._num_waiting += sum(map(len, parts))
        if self._num_waiting > _MOST_WAITING:
            self._count()

    def _count(self) -> None:
        if self._totals is None:
            self._totals = self._new_totals(self._replicates, self._seed)
        if self._waiting:
            self._totals.add(joined(self._waiting))
            self._waiting, self._num_waiting = [], 0
