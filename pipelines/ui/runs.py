"""The list of runs: what stands in each row."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.history.runs import LocalRun, State
from pipelines.times import duration, minute
from schemas.contracts.root import PAGE_FILE

TONES: dict[State, str] = {
    "succeeded": "good",
    "refused": "warn",
    "failed": "bad",
    "killed": "bad",
    "stopped": "mute",
    "unreadable": "mute",
    "running": "live",
}
"""What a state's color means: good, warn, bad, mute for nothing to do, live for under way."""


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
        result: the pushed version, or the step that failed.
        auc: mean over the tasks.
        change: of it, since the run of this ranker before.
        has_page: `report.html` is there.
    """

    id: str
    ranker: str
    state: State
    tone: str
    date: str
    started: str
    took: str
    result: str
    auc: float | None
    change: float | None
    has_page: bool


def rows_of(runs: Sequence[LocalRun], now: datetime.datetime) -> list[RunRow]:
    """Returns the rows of runs, newest first as they are."""
    rows, auc_before = [], dict[str | None, float]()
    for run in reversed(runs):
        before, auc = auc_before.get(run.ranker), run.mean_auc
        change = auc - before if auc is not None and before is not None else None
        if auc is not None:
            auc_before[run.ranker] = auc
        rows.append(_row(run, now, change))
    return rows[::-1]


def _row(run: LocalRun, now: datetime.datetime, change: float | None) -> RunRow:
    took, summary = run.seconds(now), run.summary
    result = ""
    if summary and summary.pushed:
        result = f"version {summary.pushed.version}"
    elif summary and summary.failed_step:
        result = f"in {summary.failed_step}"
    return RunRow(
        id=run.id,
        ranker=run.ranker or "",
        state=run.state,
        tone=TONES[run.state],
        date=run.date,
        started=minute(run.started) if run.started else "",
        took=duration(took) if took is not None else "",
        result=result,
        auc=run.mean_auc,
        change=change,
        has_page=has_page(run),
    )


def has_page(run: LocalRun) -> bool:
    """Says whether the run has a page of its own."""
    return Path(run.folder.path, PAGE_FILE).is_file()


def run_before(run: LocalRun, runs: Sequence[LocalRun]) -> LocalRun | None:
    """Returns the run of the same ranker before one, among runs that are newest first."""
    return next((other for other in runs if other.ranker == run.ranker and other.id < run.id), None)
