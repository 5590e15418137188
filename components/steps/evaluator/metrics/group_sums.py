"""Sums over groups for GAUC and metrics at k, of all slices at once.

A group contains only the slice's examples: its examples in other slices do not count. Examples are sorted once by group
and once for each model and task by group and score; each slice has a part of this order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.block import Block, Target
from sangam.components.steps.evaluator.metrics.columns import MISSING
from sangam.components.steps.evaluator.metrics.draws import Draws, Units
from sangam.components.steps.evaluator.metrics.group_metrics import (
    MeanSums,
    Values,
    at_k,
    draws_of,
    gauc,
    grouped,
    means,
    order_of,
)
from sangam.components.steps.evaluator.metrics.settings import Settings
from sangam.components.steps.evaluator.metrics.totals_histogram import Ints, is_first

SumsOfSlice = dict[Target, dict[str, MeanSums]]
_NO_PART = np.int8(-1)


@dataclass(frozen=True)
class SliceCodes:
    """Which examples belong to which slice of one specification.

    Attributes:
        slices: slices by number.
        codes: number of each example's slice; -1 without one.
    """

    slices: list[str]
    codes: NDArray[np.int32]

    def where(self, rows: NDArray[np.generic]) -> "SliceCodes":
        """Returns the slices of some of the examples."""
        return SliceCodes(self.slices, self.codes[rows])

    def order(self, rows: Ints) -> Ints:
        """Returns examples by slice, those of one slice in the given order."""
        if len(self.slices) == 1:
            return rows
        codes = self.codes[rows]
        # NumPy sorts 16 bits by radix.
        small = codes.astype(np.int16) if len(self.slices) < 1 << 15 else codes
        return rows[np.argsort(small, kind="stable")]

    @classmethod
    def joined(cls, parts: Sequence["SliceCodes"]) -> "SliceCodes":
        """Returns the slices of the examples of all parts."""
        numbers: dict[str, int] = {}
        codes = []
        for part in parts:
            number_of = np.array([numbers.setdefault(name, len(numbers)) for name in part.slices] + [-1], np.int32)
            codes.append(number_of[part.codes])
        return cls(list(numbers), np.concatenate(codes))

    def with_used_slices(self) -> "SliceCodes":
        """Returns the same without empty slices: Beam would send thousands of names with a few examples."""
        if len(self.slices) < len(self.codes):
            return self
        used, codes = np.unique(np.append(self.codes, np.int32(-1)), return_inverse=True)
        return SliceCodes([self.slices[code] for code in used[1:].tolist()], (codes[:-1] - 1).astype(np.int32))


@dataclass(frozen=True)
class GroupRows:
    """The columns of examples that group metrics need.

    Attributes:
        groups: hash of each example's group.
        units: hash of each example's bootstrap unit.
        codes: slices by each specification.
        labels: labels by task: 1, 0, or -1 without a label.
        scores: scores by model and task.
    """

    groups: Units
    units: Units
    codes: list[SliceCodes]
    labels: dict[str, NDArray[np.int8]]
    scores: dict[Target, NDArray[np.floating[Any]]]

    def where(self, rows: NDArray[np.generic]) -> "GroupRows":
        """Returns some of the examples."""
        return GroupRows(
            self.groups[rows],
            self.units[rows],
            [codes.where(rows).with_used_slices() for codes in self.codes],
            {task: values[rows] for task, values in self.labels.items()},
            {target: values[rows] for target, values in self.scores.items()},
        )


def split(
    block: Block, codes: list[SliceCodes], targets: Sequence[Target], num_parts: int
) -> Iterator[tuple[tuple[str, int], GroupRows]]:
    """Yields a block's examples by what groups them and part of the groups' hashes."""
    labels = {
        task: np.where(np.isnan(block.labels[task]), _NO_PART, block.labels[task] > 0).astype(np.int8)
        for task in {task for _, task in targets}
    }
    scores = {target: block.scores[target] for target in targets}
    for by, groups in block.groups.items():
        rows = GroupRows(groups, block.units, codes, labels, scores)
        parts = np.where(groups == MISSING, -1, (groups % np.uint64(num_parts)).astype(np.int64))
        for part in np.unique(parts[parts >= 0]).tolist():
            yield (by, part), rows.where(np.flatnonzero(parts == part))


def summed(
    by: str, rows: GroupRows, settings: Settings, targets: Sequence[Target], sizes: Mapping[str, int]
) -> Iterator[tuple[str, SumsOfSlice]]:
    """Yields each slice with the sums over its groups.

    Args:
        by: feature or key that groups the examples.
        rows: all examples of these groups.
        settings: metrics to measure.
        targets: models and tasks.
        sizes: number of examples of each slice: small ones have no replicates.
    """
    rows = rows.where(np.argsort(rows.groups))
    numbers = np.cumsum(is_first(rows.groups)) - 1
    # A score that is not finite makes all metrics of the slice undefined later; here any number works.
    scores = {target: np.nan_to_num(rows.scores[target].astype(np.float32)) for target in targets}
    orders = {target: order_of(numbers, scores[target]) for target in targets}
    for codes in rows.codes:
        # Slices with replicates, and those without.
        has_replicates = np.array([sizes[name] >= settings.least_examples for name in codes.slices], bool)
        for replicates, chosen in ((settings.confidence.replicates, has_replicates), (0, ~has_replicates)):
            is_mine = np.append(chosen, False)[codes.codes]
            every = _Grouped.of(rows, codes, is_mine, settings, replicates)
            sums: dict[int, SumsOfSlice] = {}
            for target in targets:
                mine = every
                if target[1] in settings.masked:
                    takes_part = rows.labels[target[1]] != _NO_PART
                    mine = _Grouped.of(rows, codes, is_mine & takes_part, settings, replicates)
                if mine is not None:
                    for code, of_slice in mine.measured(by, settings, target, orders[target], scores[target]).items():
                        sums.setdefault(code, {})[target] = of_slice
            for code, found in sums.items():
                yield codes.slices[code], found


@dataclass(frozen=True)
class _Grouped:
    """Examples of some slices, by slice and group.

    Attributes:
        rows: all examples, sorted by group.
        codes: their slices.
        is_mine: which of them are of these slices.
        numbers: number of the group within its slice of each of these, ascending.
        slices_G: code of each group's slice.
        draws: how often each group counts.
    """

    rows: GroupRows
    codes: SliceCodes
    is_mine: NDArray[np.bool_]
    numbers: Ints
    slices_G: Ints
    draws: Draws

    @classmethod
    def of(
        cls, rows: GroupRows, codes: SliceCodes, is_mine: NDArray[np.bool_], settings: Settings, replicates: int
    ) -> "_Grouped | None":
        """Sorts them; None if there are none."""
        mine = codes.order(np.flatnonzero(is_mine))
        if not len(mine):
            return None
        groups, slices = rows.groups[mine], codes.codes[mine]
        is_new = is_first(groups) | is_first(slices)
        starts: Ints = np.flatnonzero(is_new)
        draws = draws_of(rows.units[mine], groups[starts], starts, replicates, settings.confidence.seed)
        return cls(rows, codes, is_mine, np.cumsum(is_new) - 1, slices[starts].astype(np.int64), draws)

    def measured(
        self, by: str, settings: Settings, target: Target, order: Ints, scores: NDArray[np.float32]
    ) -> dict[int, dict[str, MeanSums]]:
        """Returns each metric by slice, given the order of all examples by group and falling score."""
        # The groups of this order are as long as those of `numbers`.
        mine = self.codes.order(order[self.is_mine[order]])
        groups = grouped(
            groups=self.numbers,
            draws=self.draws,
            is_positive=self.rows.labels[target[1]][mine] > 0,
            scores=scores[mine],
            slices_G=self.slices_G,
        )
        metrics: dict[str, Values] = {}
        if settings.group is not None and settings.group.by == by:
            metrics["gauc"] = gauc(groups, settings.group.weigh)
        if settings.list is not None and settings.list.by == by:
            metrics |= at_k(groups, settings.list.k)
        return means(groups, metrics)


def joined(parts: Iterable[GroupRows]) -> GroupRows:
    """Returns the examples of all parts, of which there is at least one."""
    every = list(parts)
    return GroupRows(
        np.concatenate([part.groups for part in every]),
        np.concatenate([part.units for part in every]),
        [SliceCodes.joined([part.codes[index] for part in every]) for index in range(len(every[0].codes))],
        {task: np.concatenate([part.labels[task] for part in every]) for task in every[0].labels},
        {target: np.concatenate([part.scores[target] for part in every]) for target in every[0].scores},
    )
