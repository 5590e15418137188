"""Results of trained models, kept from one call to the next: one JSON object a line."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.results import lines


class Result(NamedTuple):
    """One trained model.

    Attributes:
        table: a table of docs/quality.md.
        row: a row of that table.
        seed: seed of the training.
        digest: digest of everything that decides the result; another one is measured anew.
        commit: measured commit.
        aucs: AUC by task.
        epoch_cpu_s: processor seconds of an epoch of training, over all threads.
    """

    table: str
    row: str
    seed: int
    digest: str
    commit: str
    aucs: Mapping[str, float]
    epoch_cpu_s: float


def read(path: Path) -> list[Result]:
    """Returns all results; the last one of each table, row and seed."""
    found = [Result(**line) for line in lines(path)]
    return list({(result.table, result.row, result.seed): result for result in found}.values())


def mean_and_deviation(values: Sequence[float]) -> str:
    """Returns `0.9314 ± 0.0002`; the standard deviation is of the sample."""
    mean = statistics.fmean(values)
    return f"{mean:.4f} ± {statistics.stdev(values):.4f}" if len(values) > 1 else f"{mean:.4f} (1 seed)"


def rows(results: Iterable[Result], table: str) -> dict[str, list[Result]]:
    """Returns a table's results by row, in the order in which they were first measured."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.table == table:
            found.setdefault(result.row, []).append(result)
    return found
