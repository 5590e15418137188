"""Counts what is served: every column's and task's values as parts of one vector, which adds up over processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.drift.distances import jensen_shannon, l_infinity
from sangam.components.drift.hashing import counted_hashes
from sangam.schemas.contracts.drift_reference import Bins, ColumnReference, Values
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING
from sangam.schemas.spec.drift import Measure

Arrays = Mapping[str, NDArray[Any]]
Ints = NDArray[np.int64]

# Shape suffixes: R rows, W width of a list, K bins, V values.

REST = 256
"""Parts of the values that are not kept by themselves, by their hashes: a value that training did not have is found by
what its part has more than the others."""


class BinCounter:
    """Numbers by bins."""

    def __init__(self, reference: Bins):
        self._cuts, self._shares_K = np.array(reference.cuts), np.array(reference.shares)
        self.size = len(reference.shares)

    def counts(self, numbers: NDArray[Any]) -> Ints:
        """Returns how many numbers each bin has."""
        return np.bincount(np.searchsorted(self._cuts, numbers), minlength=self.size)

    def distances(self, counts_K: Ints, measure: str) -> dict[str, float]:
        """Returns the distance from training; none without numbers."""
        total = counts_K.sum()
        return {measure: jensen_shannon(self._shares_K, counts_K / total)} if total else {}


class ValueCounter:
    """Ids or texts: the frequent ones of training by themselves, others by parts."""

    def __init__(self, reference: Values):
        self._known_V, self._shares_V = np.array(reference.hashes, np.uint64), np.array(reference.shares)
        self.size = len(self._known_V) + REST

    def counts(self, values: NDArray[Any]) -> Ints:
        """Returns how often each known value was found, then the parts of others."""
        hashes, times = counted_hashes(values)
        known = len(self._known_V)
        place = np.searchsorted(self._known_V, hashes)
        is_known = np.zeros(len(hashes), bool)
        if known:
            is_known = self._known_V[np.minimum(place, known - 1)] == hashes
        place = np.where(is_known, place, known + (hashes % REST).astype(np.int64))
        return np.bincount(place, times, self.size).astype(np.int64)

    def distances(self, counts: Ints) -> dict[str, float]:
        """Returns the distances from training; none without values."""
        total = counts.sum()
        if not total:
            return {}
        known_V, rest = counts[: len(self._known_V)], counts[len(self._known_V) :]
        most = int(rest.max())
        # One value's count, with what the other parts have on average.
        new = max(0.0, most - (int(rest.sum()) - most) / (REST - 1))
        return {
            "l_infinity": max(l_infinity(self._shares_V, known_V / total), new / total),
            "rest_share": abs(float(rest.sum() / total) - max(0.0, 1.0 - float(self._shares_V.sum()))),
        }


@dataclass(frozen=True)
class ColumnDrift:
    """What one column was like.

    Attributes:
        missing: share of the rows without a value.
        trained_missing: the same in training.
        distances: distances from training by measure.
        bounds: bounds of the spec by measure.
    """

    missing: float
    trained_missing: float
    distances: Mapping[str, float]
    bounds: Mapping[Measure, float]

    @property
    def over(self) -> list[str]:
        """The measures beyond their bounds."""
        return [name for name, bound in self.bounds.items() if self.distances.get(name, 0.0) > bound]


class ColumnCounter:
    """One column: rows without a value, then values, numbers and lengths, as far as there is a reference of each."""

    def __init__(self, column: ServedColumn, reference: ColumnReference):
        self._column, self._reference = column, reference
        self._values = ValueCounter(reference.values) if reference.values else None
        self._numbers = BinCounter(reference.numbers) if reference.numbers else None
        self._lengths = BinCounter(reference.lengths) if reference.lengths else None
        parts = [part.size for part in (self._values, self._numbers, self._lengths) if part]
        self._ends = np.cumsum([1, *parts])
        self.size = int(self._ends[-1])

    def counts(self, inputs: Arrays, rows: Ints) -> Ints:
        """Returns the counts of some rows; a single row of an input stands for all."""
        given = _rows(inputs[self._column.input], rows)
        lengths_R = np.zeros(0, np.int64)
        if self._column.is_list:
            lengths_R = _rows(inputs[self._column.input + LENGTH], rows)
            most = max(len(given), len(lengths_R))
            given, lengths_R = (np.repeat(each, most // len(each), axis=0) for each in (given, lengths_R))
            values = given[np.arange(given.shape[1]) < lengths_R[:, None]]
            missing = int((lengths_R <= 0).sum())
        else:
            values = _present(given, self._column)
            missing = len(given) - len(values)
        parts = []
        if self._values:
            parts.append(self._values.counts(values))
        if self._numbers:
            numbers = values.astype(np.float64)
            parts.append(self._numbers.counts(numbers[np.isfinite(numbers)]))
        if self._lengths:
            parts.append(self._lengths.counts(lengths_R[lengths_R > 0]))
        return np.concatenate([[missing], *parts]) * (len(rows) // len(given))

    def drift(self, counts: Ints, rows: int) -> ColumnDrift:
        """Returns how far the counted values are from training's."""
        _, *parts = np.split(counts, self._ends[:-1])
        missing = int(counts[0]) / rows
        found = {"missing_share": abs(missing - self._reference.missing)}
        if self._values:
            found |= self._values.distances(parts.pop(0))
        if self._numbers:
            found |= self._numbers.distances(parts.pop(0), "jensen_shannon")
        if self._lengths:
            found |= self._lengths.distances(parts.pop(0), "lengths")
        return ColumnDrift(missing, self._reference.missing, found, self._reference.bounds)


def _rows(array: NDArray[Any], rows: Ints) -> NDArray[Any]:
    return array if len(array) == 1 else array[rows]


def _present(given: NDArray[Any], column: ServedColumn) -> NDArray[Any]:
    """Returns the values that are not missing."""
    if column.type == "float":
        return given[np.isfinite(given)]
    return given[given != MISSING[column.type]]
