"""The progress of searches of `sangam tune`, read from the files that a search writes after each trial."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sangam.components.record.lock import is_locked
from sangam.pipelines.local.training_progress import read_progress
from sangam.schemas.contracts.root import Root
from sangam.schemas.contracts.training_job import PROGRESS_FILE

_TABLE_FILE, _TRIALS, _BEST_FILE = "trials.csv", "trials", "best.yaml"
_WORDS = ("trial", "state", "epoch", "seconds", "starts", "reason")
_METRICS = (".auc", ".rmse")
_TONES = {"done": "good", "pruned": "mute", "failed": "bad", "running": "live", "unfinished": "mute"}


@dataclass(frozen=True)
class TrialRow:
    """One trial; missing numbers are None."""

    number: int
    state: str
    objective: float | None = None
    epoch: str = ""
    seconds: float | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def tone(self) -> str:
        """The meaning of the color of its state."""
        return _TONES.get(self.state, "mute")


@dataclass(frozen=True)
class SearchSoFar:
    """A search.

    Attributes:
        ranker: name of the ranker.
        id: name of its folder.
        objective: objective of the search; empty before the end of the first trial.
        trials: trials in order.
        is_running: whether a process holds its lock.
        changed_at: time of the last change, seconds since 1970.
        best_spec: path of the best spec; None without one.
    """

    ranker: str
    id: str
    objective: str
    trials: tuple[TrialRow, ...]
    is_running: bool
    changed_at: float
    best_spec: Path | None = None

    @property
    def is_larger_better(self) -> bool:
        """Whether the best trial has the largest value."""
        return not self.objective.endswith("rmse")

    @property
    def best(self) -> TrialRow | None:
        """The best `done` trial, the first of equals; None without one."""
        done = [trial for trial in self.trials if trial.state == "done" and trial.objective is not None]
        sign = -1.0 if self.is_larger_better else 1.0
        return min(done, key=lambda trial: (sign * (trial.objective or 0.0), trial.number), default=None)

    @property
    def best_so_far(self) -> list[tuple[int, float]]:
        """The number of each `done` trial, and the best value up to it."""
        better, found = max if self.is_larger_better else min, list[tuple[int, float]]()
        for trial in self.trials:
            if trial.state == "done" and trial.objective is not None:
                before = found[-1][1] if found else trial.objective
                found.append((trial.number, better(before, trial.objective)))
        return found

    def count(self, state: str) -> int:
        """Returns the number of trials in a state."""
        return sum(trial.state == state for trial in self.trials)


@dataclass(frozen=True)
class Column:
    """A setting of the trials: its path in the spec, the path's shortest unique suffix, and whether it is a number."""

    path: str
    short: str
    is_number: bool


def columns_of(trials: Sequence[TrialRow]) -> list[Column]:
    """Returns the settings of trials, in order."""
    paths = list(dict.fromkeys(path for trial in trials for path in trial.values))
    columns = []
    for path in paths:
        parts, words = path.split("."), 1
        while words < len(parts) and sum(other.split(".")[-words:] == parts[-words:] for other in paths) > 1:
            words += 1
        values = [trial.values[path] for trial in trials if path in trial.values]
        columns.append(Column(path, ".".join(parts[-words:]), all(map(_is_number, values))))
    return columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_searches(root: Root) -> list[SearchSoFar]:
    """Returns the searches of a root, most recently changed first."""
    found = [_read(folder) for folder in root.tune("").glob("*/*") if folder.is_dir()]
    return sorted(found, key=lambda search: search.changed_at, reverse=True)


def _read(folder: Path) -> SearchSoFar:
    is_running, table, best = is_locked(folder), folder / _TABLE_FILE, folder / _BEST_FILE
    objective, trials = _table(table)
    by_number = {trial.number: trial for trial in trials}
    for trial in _unfinished(folder, is_running=is_running):
        known = by_number.get(trial.number)
        if known is None or known.state == "unfinished":
            by_number[trial.number] = replace(trial, values=known.values if known else {})
    changed = [path.stat().st_mtime for path in (folder, table) if path.exists()]
    return SearchSoFar(
        folder.parent.name,
        folder.name,
        objective,
        tuple(sorted(by_number.values(), key=lambda trial: trial.number)),
        is_running,
        max(changed),
        best if best.is_file() else None,
    )


def _table(path: Path) -> tuple[str, list[TrialRow]]:
    """Returns the objective and the trials of the table; empty without a table."""
    try:
        table = csv.DictReader(path.read_text(encoding="utf-8").splitlines(), strict=True)
        # Only the objective's column has a space in its name.
        objective = next((name for name in table.fieldnames or () if " " in name), "")
        return objective, [_trial(row, objective) for row in table if None not in (*row, *row.values())]
    except (OSError, ValueError, KeyError, csv.Error):
        return "", []


def _trial(row: Mapping[str, str], objective: str) -> TrialRow:
    paths = (name for name in row if name not in (*_WORDS, objective) and not name.endswith(_METRICS))
    values = {name: row[name] for name in paths if row[name]}
    seconds, value = _number(row["seconds"]), _number(row[objective])
    return TrialRow(int(row["trial"]), row["state"], value, row["epoch"], seconds, values, row["reason"])


def _number(text: str) -> float | None:
    value = float(text or "nan")
    return value if math.isfinite(value) else None


def _unfinished(folder: Path, *, is_running: bool) -> Iterator[TrialRow]:
    """Yields the trials that have a folder: those that are not in the table are running or were interrupted."""
    for trial in (folder / _TRIALS).glob("[0-9]*"):
        if trial.name.isdigit():
            note = str(read_progress(trial / "logs" / PROGRESS_FILE) or "")
            yield TrialRow(int(trial.name), "running" if is_running else "unfinished", note=note.strip())
