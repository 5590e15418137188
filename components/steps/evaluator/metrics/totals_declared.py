"""Totals of a task with metrics that the spec declares: sums that parts of others compute."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from sangam.components.outside import metric_sums, metric_values
from sangam.components.reports.curves import Curve
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.totals import Part, Sums, finite
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats
from sangam.schemas.parts.judging import Metric
from sangam.schemas.spec.metrics import WEIGHTED


class DeclaredTotals:
    """The totals of the task's kind, and beside them the sums of each declared metric: [S, R]."""

    def __init__(self, new: Callable[..., Any], declared: Mapping[str, Metric], replicates: int, seed: int) -> None:
        """Starts empty; `new` creates the totals of the task's kind."""
        self.own = new(replicates, seed)
        self.declared = declared
        self.summed: dict[str, Floats] = {}

    @property
    def sums(self) -> Sums:
        """The sums of the totals of the task's kind."""
        sums: Sums = self.own.sums
        return sums

    def add(self, part: Part, draws: Draws) -> None:
        """Counts examples."""
        self.own.add(part, draws)
        part, draws = finite(part, draws)
        if len(part):
            self._plus(dict(self._of(part, draws)))

    def merge(self, other: "DeclaredTotals") -> None:
        """Adds the totals of other examples of the same task."""
        self.own.merge(other.own)
        self._plus(other.summed)

    def metrics(self) -> dict[str, Floats]:
        """Returns each metric of the data and of each replicate, [R]; NaN where it is undefined."""
        undefined = np.full(1 + self.sums.replicates, np.nan)
        metrics: dict[str, Floats] = self.own.metrics()
        for name, metric in self._named(is_weighted=any(each.startswith(WEIGHTED) for each in metrics)):
            is_defined = name in self.summed and self.sums.is_defined
            metrics[name] = metric_values(metric, self.summed[name].T) if is_defined else undefined
        return metrics

    def report(self) -> dict[str, float]:
        """Returns counts and means."""
        report: dict[str, float] = self.own.report()
        return report

    def buckets(self) -> list[dict[str, float]]:
        """Returns the calibration by tenths of the examples."""
        buckets: list[dict[str, float]] = self.own.buckets()
        return buckets

    def curve(self) -> Curve | None:
        """Returns the curves of the task."""
        curve: Curve | None = self.own.curve()
        return curve

    def _named(self, *, is_weighted: bool) -> Iterator[tuple[str, Metric]]:
        for name, metric in self.declared.items():
            yield name, metric
            if is_weighted:
                yield WEIGHTED + name, metric

    def _of(self, part: Part, draws: Draws) -> Iterator[tuple[str, Floats]]:
        for name, metric in self.declared.items():
            sums_BS = metric_sums(metric, part.labels, part.scores)
            yield name, draws.summed(list(sums_BS.T))
            if part.weights is not None:
                yield WEIGHTED + name, draws.summed(list((sums_BS * part.weights[:, None]).T))

    def _plus(self, summed: Mapping[str, Floats]) -> None:
        for name, values in summed.items():
            self.summed[name] = self.summed[name] + values if name in self.summed else values
