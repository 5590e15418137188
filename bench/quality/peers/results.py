"""Results of the contest, kept from one call to the next, and its tables."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.results import add_line, lines, table

OURS = "sangam init, run"
STOPPED = "LightGBM"
REFITTED = "LightGBM, refitted"
LAGGED = "LightGBM, refitted, lagged rates"
ROWS = (OURS, STOPPED, REFITTED, LAGGED, "XGBoost, refitted", "CatBoost, refitted")
_WITHIN, _CALIBRATED = 0.003, (0.95, 1.05)


@dataclass(frozen=True)
class Measured:
    """One trained model, or the models of all tasks.

    Attributes:
        aucs: of the evaluated rows, by task.
        calibrations: predicted over observed, by task.
        cpu_s: processor seconds, of all processes.
        wall_s: seconds.
        note: how a run of ours ended; of trees their numbers.
    """

    aucs: Mapping[str, float]
    calibrations: Mapping[str, float]
    cpu_s: float
    wall_s: float
    note: str


@dataclass(frozen=True)
class Result:
    """What was measured of a contestant on a set; the commit is that of the measurement."""

    contest: str
    row: str
    seed: int
    commit: str
    measured: Measured


def add(file: Path, result: Result) -> None:
    """Keeps a result."""
    add_line(file, asdict(result))


def read(file: Path) -> list[Result]:
    """Returns the last result of each set, contestant and seed."""
    found = [Result(**{**line, "measured": Measured(**line["measured"])}) for line in lines(file)]
    return list({(each.contest, each.row, each.seed): each for each in found}.values())


def markdown(found: Sequence[Result], titles: Mapping[str, str]) -> str:
    """Returns the table of AUC and calibration by task, and below it that of processor seconds by set."""
    return f"{_quality(found, titles)}\n\n{_costs(found, titles)}"


def _of(found: Sequence[Result], contest: str) -> dict[str, list[Measured]]:
    by_row = {row: [each.measured for each in found if (each.contest, each.row) == (contest, row)] for row in ROWS}
    return {row: of_row for row, of_row in by_row.items() if of_row}


def _quality(found: Sequence[Result], titles: Mapping[str, str]) -> str:
    made = []
    for contest, title in titles.items():
        of_rows = _of(found, contest)
        tasks = list(next(iter(of_rows.values()))[0].aucs) if of_rows else []
        for task in tasks:
            goal = max((_auc(of_rows[row], task) for row in of_rows if row.startswith(STOPPED)), default=0.0) - _WITHIN
            cells = [_cell(of_rows[row], task, goal if row == OURS else 0.0) if row in of_rows else "" for row in ROWS]
            made.append([title, task, *cells])
    return table(["data", "task", *ROWS], made)


def _auc(of_row: Sequence[Measured], task: str) -> float:
    return statistics.fmean(each.aucs[task] for each in of_row)


def _cell(of_row: Sequence[Measured], task: str, goal: float) -> str:
    """Returns `0.7327 ± 0.0011 (1.02)`, with what is missed."""
    auc, ratio = _auc(of_row, task), statistics.fmean(each.calibrations[task] for each in of_row)
    spread = f" ± {statistics.stdev(each.aucs[task] for each in of_row):.4f}" if len(of_row) > 1 else ""
    is_calibrated = _CALIBRATED[0] <= round(ratio, 3) <= _CALIBRATED[1]
    missed = [name for name, is_met in (("AUC", auc >= goal), ("calibration", is_calibrated or not goal)) if not is_met]
    return f"{auc:.4f}{spread} ({ratio:.3f})" + (f" **missed: {', '.join(missed)}**" if missed else "")


def _costs(found: Sequence[Result], titles: Mapping[str, str]) -> str:
    made = []
    for contest, title in titles.items():
        of_rows = _of(found, contest)
        cells = [f"{statistics.fmean(x.cpu_s for x in of_rows[row]):.0f}" if row in of_rows else "" for row in ROWS]
        seeds = "/".join(str(len(of_rows.get(row, ()))) for row in ROWS)
        commits = ", ".join(sorted({each.commit for each in found if each.contest == contest}))
        if of_rows:
            made.append([title, *cells, seeds, commits])
    return table(["processor seconds", *ROWS, "seeds", "commit"], made)
