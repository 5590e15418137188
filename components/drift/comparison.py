"""One version's live inputs and scores against what it was trained on."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sangam.components.drift.counting import Arrays, BinCounter, ColumnCounter, ColumnDrift, Ints
from sangam.components.request_log.examples import inputs_of_examples
from sangam.schemas.contracts.drift_reference import FILE_NAME, DriftReference, read_reference
from sangam.schemas.contracts.export import Description, ServedColumn

MOST_ROWS = 64
"""Rows that are counted of one request."""


@dataclass(frozen=True)
class Drift:
    """What was found of one hour.

    Attributes:
        rows: number of rows that were compared.
        columns: columns by name; empty without rows.
        scores: distance of each task's scores.
    """

    rows: int
    columns: Mapping[str, ColumnDrift]
    scores: Mapping[str, float]


class Comparison:
    """The columns and tasks of a version as parts of one vector of counts, which begins with the number of rows.

    Attributes:
        version: number of the version.
        size: length of the vector.
    """

    def __init__(self, version: int, columns: Mapping[str, ServedColumn], reference: DriftReference):
        """Lays the parts out, in the order of the reference."""
        self.version, self._columns = version, columns
        self._parts = {
            name: ColumnCounter(columns[name], told) for name, told in reference.columns.items() if name in columns
        }
        self._scores = {task: BinCounter(bins) for task, bins in reference.scores.items()}
        sizes = [*(part.size for part in self._parts.values()), *(bins.size for bins in self._scores.values())]
        self._starts = np.cumsum([1, *sizes])
        self.size = int(self._starts[-1])

    def counts(self, inputs: Arrays, num_rows: int, scores: Arrays) -> Ints:
        """Returns the counts of some rows of a request, evenly chosen.

        Args:
            inputs: inputs of `rank`, or `examples`.
            num_rows: number of its rows, one at least.
            scores: predictions by task.
        """
        if inputs.keys() == {"examples"}:
            inputs = inputs_of_examples(self._columns, inputs["examples"])
        rows = np.unique(np.linspace(0, num_rows - 1, min(num_rows, MOST_ROWS)).astype(np.int64))
        found = np.zeros(self.size, np.int64)
        found[0] = len(rows)
        parts = iter(zip(self._starts[:-1], self._starts[1:], strict=True))
        for column in self._parts.values():
            found[slice(*next(parts))] = column.counts(inputs, rows)
            time.sleep(0)  # Requests come first.
        for task, bins in self._scores.items():
            part = slice(*next(parts))
            if task in scores:
                found[part] = bins.counts(scores[task].reshape(num_rows)[rows])
        return found

    def drift(self, counts: Ints) -> Drift:
        """Returns what was counted as distances."""
        rows = int(counts[0])
        if not rows:
            return Drift(0, {}, {})
        parts = iter(np.split(counts, self._starts[:-1])[1:])
        columns = {name: column.drift(next(parts), rows) for name, column in self._parts.items()}
        scores: dict[str, float] = {}
        for task, bins in self._scores.items():
            scores |= bins.distances(next(parts), task)
        return Drift(rows, columns, scores)


def comparison_of(folder: Path, described: Description | None, version: int) -> Comparison | None:
    """Returns what a version's requests are compared with; None where it has no reference.

    Raises:
        UserError: the reference cannot be read.
    """
    file = folder / FILE_NAME
    if described is None or not file.is_file():
        return None
    return Comparison(version, described.columns, read_reference(str(file), file.read_bytes()))
