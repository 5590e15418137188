"""The rows of the list of runs."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from sangam.components.record.outcome import TONES, Tone
from sangam.components.record.store import State, StoredRun
from sangam.pipelines.times import duration, minute


@dataclass(frozen=True)
class RunRow:
    """One run.

    Attributes:
        id: id of the run.
        ranker: name of the ranker; empty if unknown.
        state: state as in `sangam runs`.
        tone: meaning of the state's color.
        date: YYYY-MM-DD, or empty.
        started: start time, UTC to the minute.
        took: duration, so far if it runs.
        result: pushed version, failed step, or reason why the run cannot be read.
        auc: mean AUC over the tasks.
        change: change of `auc` since the ranker's previous run.
        has_page: whether `report.html` exists.
    """

    id: str
    ranker: str
    state: State
    tone: Tone
    date: str
    started: str
    took: str
    result: str
    auc: float | None
    change: float | None
    has_page: bool


def rows_of(runs: Sequence[StoredRun], now: datetime.datetime) -> list[RunRow]:
    """Returns the rows of runs, which are newest first."""
    rows, auc_before = [], dict[str | None, float]()
    for run in reversed(runs):
        before, auc = auc_before.get(run.ranker), _auc(run)
        change = auc - before if auc is not None and before is not None else None
        if auc is not None:
            auc_before[run.ranker] = auc
        rows.append(_row(run, now, change))
    return rows[::-1]


def _row(run: StoredRun, now: datetime.datetime, change: float | None) -> RunRow:
    took, record = run.seconds(now), run.record
    result = ""
    if record and record.pushed:
        result = f"version {record.pushed.version}"
    elif record and record.failed_step:
        result = f"in {record.failed_step}"
    elif run.problem:
        result = run.problem
    return RunRow(
        id=run.id,
        ranker=run.ranker or "",
        state=run.state,
        tone=TONES[run.state],
        date=run.date,
        started=minute(run.started) if run.started else "",
        took=duration(took) if took is not None else "",
        result=result,
        auc=_auc(run),
        change=change,
        has_page=has_page(run),
    )


def has_page(run: StoredRun) -> bool:
    """Returns whether the run has its own page."""
    return run.folder.page.is_file()


def _auc(run: StoredRun) -> float | None:
    return run.record.mean_auc if run.record else None
