"""The list of runs: what stands in each row."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from components.record.outcome import TONES, Tone
from components.record.store import State, StoredRun
from pipelines.times import duration, minute


@dataclass(frozen=True)
class RunRow:
    """One run.

    Attributes:
        id: of the run.
        ranker: name; empty where it is not known.
        state: in the words of `sangam runs`.
        tone: of the state.
        date: YYYY-MM-DD, or empty.
        started: UTC to the minute.
        took: or has taken so far.
        result: the pushed version, the step that failed, or why it cannot be read.
        auc: mean over the tasks.
        change: of it, since the run of this ranker before.
        has_page: `report.html` is there.
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
    """Returns the rows of runs, newest first as they are."""
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
    """Says whether the run has a page of its own."""
    return run.folder.page.is_file()


def _auc(run: StoredRun) -> float | None:
    return run.record.mean_auc if run.record else None
