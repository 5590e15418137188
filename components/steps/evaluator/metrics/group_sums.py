"""Sums over groups for GAUC and metrics at k, of all slices at once.

A group contains only the slice's examples: its examples in other slices do not count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.block import Block, Target
from sangam.components.steps.evaluator.metrics.columns import MISSING
from sangam.components.steps.evaluator.metrics.draws import Units
from sangam.components.steps.evaluator.metrics.group_metrics import MeanSums, at_k, draws, gauc, grouped
from sangam.components.steps.evaluator.metrics.settings import Settings
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats, Ints

GROUP, LIST = "group", "list"
"""Purposes of groups."""
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
    """Yields a block's examples by purpose and part of the groups' hashes."""
    labels = {
        task: np.where(np.isnan(block.labels[task]), _NO_PART, block.labels[task] > 0).astype(np.int8)
        for task in {task for _, task in targets}
    }
    scores = {target: block.scores[target] for target in targets}
    for purpose, groups in block.groups.items():
        rows = GroupRows(groups, block.units, codes, labels, scores)
        parts = np.where(groups == MISSING, -1, (groups % np.uint64(num_parts)).astype(np.int64))
        for part in np.unique(parts[parts >= 0]).tolist():
            yield (purpose, part), rows.where(np.flatnonzero(parts == part))


def summed(
    purpose: str, rows: GroupRows, settings: Settings, targets: Sequence[Target], sizes: Mapping[str, int]
) -> Iterator[tuple[str, SumsOfSlice]]:
    """Yields each slice with the sums over its groups.

    Args:
        purpose: purpose of the groups.
        rows: all examples of these groups.
        settings: metrics to measure.
        targets: models and tasks.
        sizes: number of examples of each slice: small ones have no replicates.
    """
    for codes in rows.codes:
        # Slices with replicates, and those without.
        has_replicates = np.array([sizes[name] >= settings.least_examples for name in codes.slices], bool)
        for replicates, chosen in ((settings.confidence.replicates, has_replicates), (0, ~has_replicates)):
            mine = (codes.codes >= 0) & np.append(chosen, False)[codes.codes]
            if mine.any():
                yield from _summed(purpose, rows.where(mine), codes.where(mine), settings, targets, replicates)


def _summed(
    purpose: str, rows: GroupRows, codes: SliceCodes, settings: Settings, targets: Sequence[Target], replicates: int
) -> Iterator[tuple[str, SumsOfSlice]]:
    order = np.lexsort((rows.groups, codes.codes))
    every = _Sorted.of(rows.where(order), codes.codes[order], settings, replicates)
    sums: dict[int, SumsOfSlice] = {}
    for target in targets:
        mine = every
        if target[1] in settings.masked:
            takes_part = every.rows.labels[target[1]] != _NO_PART
            if not takes_part.any():
                continue
            mine = _Sorted.of(every.rows.where(takes_part), every.codes[takes_part], settings, replicates)
        found = _measured(purpose, mine, len(codes.slices), settings, target)
        for code in np.unique(mine.codes).tolist():
            sums.setdefault(code, {})[target] = {name: of_slices[code] for name, of_slices in found.items()}
    for code, of_slice in sums.items():
        yield codes.slices[code], of_slice


@dataclass(frozen=True)
class _Sorted:
    """Examples sorted by slice and group.

    Attributes:
        rows: the examples.
        codes: codes of their slices.
        starts: index of the first example of each group within its slice.
        numbers: numbers of each example's group within its slice.
        drawn_GR: how often each group counts.
    """

    rows: GroupRows
    codes: NDArray[np.int32]
    starts: Ints
    numbers: Ints
    drawn_GR: Floats

    @classmethod
    def of(cls, rows: GroupRows, codes: NDArray[np.int32], settings: Settings, replicates: int) -> "_Sorted":
        is_first = np.ones(len(codes), bool)
        is_first[1:] = (rows.groups[1:] != rows.groups[:-1]) | (codes[1:] != codes[:-1])
        starts: Ints = np.flatnonzero(is_first)
        drawn_GR = draws(rows.units, rows.groups[starts], starts, replicates, settings.confidence.seed)
        return cls(rows, codes, starts, np.cumsum(is_first) - 1, drawn_GR)


def _measured(
    purpose: str, examples: _Sorted, num_slices: int, settings: Settings, target: Target
) -> dict[str, list[MeanSums]]:
    """Returns each metric by slice."""
    groups = grouped(
        groups=examples.numbers,
        drawn_GR=examples.drawn_GR,
        is_positive=examples.rows.labels[target[1]] > 0,
        # A score that is not finite makes all metrics of the slice undefined later; here any number works.
        scores=np.nan_to_num(examples.rows.scores[target]),
        slices_G=examples.codes[examples.starts].astype(np.int64),
        num_slices=num_slices,
    )
    if purpose == GROUP and settings.group is not None:
        return {"gauc": gauc(groups, settings.group.weigh)}
    return at_k(groups, settings.list.k) if settings.list is not None else {}


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
