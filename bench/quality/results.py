"""What was measured, kept from one call to the next: one JSON object a line."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    """One trained model.

    Attributes:
        table: of docs/quality.md.
        row: of that table.
        seed: of the training.
        digest: of all that decides the result; another one is measured anew.
        commit: that was measured.
        aucs: by task.
        seconds: of training and evaluation.
        epoch_cpu_s: seconds of processor time of an epoch; None: measured before that was.
    """

    table: str
    row: str
    seed: int
    digest: str
    commit: str
    aucs: Mapping[str, float]
    seconds: float
    epoch_cpu_s: float | None = None


def read(path: Path) -> list[Result]:
    """Returns all results, the last one of those of the same place."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [Result(**json.loads(line)) for line in lines]
    return list({(result.table, result.row, result.seed): result for result in found}.values())


def add(path: Path, result: Result) -> None:
    """Writes one more line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(result._asdict()) + "\n")


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
