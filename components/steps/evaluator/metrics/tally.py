"""A slice's data in Beam: its examples while they are few, then totals; and sums over groups."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sangam.components.reports.curves import Curve
from sangam.components.steps.evaluator.metrics.block import Block, Target, joined
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.group_metrics import MeanSums
from sangam.components.steps.evaluator.metrics.totals import Part
from sangam.components.steps.evaluator.metrics.totals_binary import BinaryTotals
from sangam.components.steps.evaluator.metrics.totals_declared import DeclaredTotals
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats
from sangam.components.steps.evaluator.metrics.totals_regression import RegressionTotals
from sangam.components.steps.evaluator.metrics.totals_weighted import WeightedTotals
from sangam.schemas.parts.judging import Metric

Totals = BinaryTotals | RegressionTotals | WeightedTotals | DeclaredTotals
NewTotals = Callable[[int, int], Totals]
"""Creates empty totals from the bootstrap's replicates and seed."""

_MOST_WAITING = 65_536
"""Examples kept before they are counted: some 4 MB, less than the totals of several tasks."""
_AT_ONCE = 32_768
"""Examples that are counted at once: their draws for 100 replicates take 7 MB."""
_COUNTS = {"gauc": ("num_groups", "num_groups_skipped"), "ndcg": ("num_lists", "num_lists_skipped")}
"""Names of a metric's two counts of groups."""


@dataclass(frozen=True)
class Result:
    """The metrics of one task of one model on one slice.

    Attributes:
        metrics: metrics of the data, then of each replicate; NaN where undefined.
        report: counts and means.
        buckets: calibration by tenths of the examples.
        curve: curve of a binary task; None where it is undefined, or not asked for.
    """

    metrics: dict[str, Floats]
    report: dict[str, float]
    buckets: list[dict[str, float]]
    curve: Curve | None


@dataclass(frozen=True)
class Measures:
    """Settings of the counts of every slice.

    Attributes:
        totals: factories of the totals of each task of each model.
        replicates: replicates of the bootstrap.
        seed: seed of the bootstrap.
    """

    totals: Mapping[Target, NewTotals]
    replicates: int
    seed: int


def new_totals(
    kind: str, *, is_weighted: bool, has_intervals: bool = True, declared: Mapping[str, Metric] = MappingProxyType({})
) -> NewTotals:
    """Returns the factory of a task's totals.

    Args:
        kind: `binary` or `regression`.
        is_weighted: whether the examples have weights.
        has_intervals: whether there is a bootstrap.
        declared: metrics that the spec declares.
    """
    totals: NewTotals = BinaryTotals if kind == "binary" else RegressionTotals
    totals = functools.partial(WeightedTotals, totals) if is_weighted else totals
    totals = functools.partial(DeclaredTotals, totals, declared) if declared else totals
    return totals if has_intervals else functools.partial(_without_replicates, totals)


def _without_replicates(totals: NewTotals, replicates: int, seed: int) -> Totals:
    del replicates
    return totals(0, seed)


class Tally:
    """Counts blocks of examples and sums over groups, in any order."""

    def __init__(self, measures: Measures) -> None:
        """Starts empty."""
        self._measures = measures
        self._waiting: list[Block] = []
        self._num_waiting = 0
        self._totals: dict[Target, Totals] = {}
        self._means: dict[Target, dict[str, MeanSums]] = {}
        self.num_examples = 0
        """Number of examples of the slice, for all tasks."""

    def add(self, block: Block, draws: Draws | None = None) -> None:
        """Adds examples: counts them at once if their draws are given."""
        self.num_examples += len(block)
        if draws is not None:
            self._count(block, draws)
        else:
            self._wait([block])

    def add_means(self, means: Mapping[Target, Mapping[str, MeanSums]]) -> None:
        """Adds sums over groups."""
        for target, sums in means.items():
            own = self._means.setdefault(target, {})
            for name, each in sums.items():
                own[name] = own[name].plus(each) if name in own else each

    def merge(self, other: "Tally") -> None:
        """Adds another tally, which is of no use afterwards: its totals may have become parts of this one."""
        self.num_examples += other.num_examples
        self._wait(other._waiting)
        for target, totals in other._totals.items():
            if target in self._totals:
                # Both have the same class; the union's type does not express this.
                self._totals[target].merge(totals)  # type: ignore[arg-type]
            else:
                self._totals[target] = totals
        self.add_means(other._means)

    def compact(self) -> None:
        """Joins the uncounted examples, so that Beam sends one array of each."""
        if len(self._waiting) > 1:
            self._waiting = [joined(self._waiting)]

    def result(self, least_examples: int, *, with_curves: bool = True) -> dict[Target, Result]:
        """Returns the metrics, without replicates for tasks with fewer examples than `least_examples`."""
        self.compact()
        waiting = self._waiting[0] if self._waiting else None
        replicates = {target: self._replicates_of(target, waiting, least_examples) for target in self._measures.totals}
        for target, number in replicates.items():
            self._totals.setdefault(target, self._measures.totals[target](number, self._measures.seed))
        self._count_waiting(max(replicates.values(), default=0))
        return {target: self._result(target, replicates[target], with_curve=with_curves) for target in replicates}

    def _replicates_of(self, target: Target, waiting: Block | None, least_examples: int) -> int:
        examples = self._totals[target].sums.num_examples if target in self._totals else 0
        if waiting is not None:
            examples += waiting.num_examples(target)
        return self._measures.replicates if examples >= least_examples else 0

    def _result(self, target: Target, replicates: int, *, with_curve: bool) -> Result:
        totals = self._totals[target]
        metrics = {name: values[: 1 + replicates] for name, values in totals.metrics().items()}
        report = totals.report()
        for name, sums in self._means.get(target, {}).items():
            defined = 1.0 if totals.sums.is_defined else np.nan
            metrics[name] = sums.mean()[: 1 + replicates] * defined
            for count, value in zip(_COUNTS.get(name.split("_")[0], ()), (sums.counted, sums.skipped), strict=False):
                report[count] = float(value)
        return Result(metrics, report, totals.buckets(), totals.curve() if with_curve else None)

    def _wait(self, blocks: list[Block]) -> None:
        self._waiting += blocks
        self._num_waiting += sum(map(len, blocks))
        if self._num_waiting > _MOST_WAITING:
            self._count_waiting(self._measures.replicates)

    def _count_waiting(self, replicates: int) -> None:
        block = joined(self._waiting) if self._waiting else None
        self._waiting, self._num_waiting = [], 0
        for start in range(0, len(block) if block is not None else 0, _AT_ONCE):
            assert block is not None
            chunk = block.where(slice(start, start + _AT_ONCE))
            self._count(chunk, Draws.of(chunk.units, replicates, self._measures.seed))

    def _count(self, block: Block, draws: Draws) -> None:
        for target in self._measures.totals:
            totals = self._of(target)
            rows = block.taking_part(target)
            part: Part = block.part(target)
            mine = draws.first(totals.sums.replicates)
            totals.add(part, mine if rows is None else mine.where(rows))

    def _of(self, target: Target) -> Totals:
        if target not in self._totals:
            self._totals[target] = self._measures.totals[target](self._measures.replicates, self._measures.seed)
        return self._totals[target]
