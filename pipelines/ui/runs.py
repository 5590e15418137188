"""The rows of the list of runs."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from sangam.components.record.outcome import TONES, Tone, outcome_of
from sangam.components.record.store import State, StoredRun
from sangam.components.reports.headline import main_of_run
from sangam.pipelines.times import duration, minute
from sangam.schemas.quantities import shown_seconds


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
        warnings: number of warnings.
        metric: name of the main metric, such as `mean auc`; empty without one.
        value: its value.
        change: change of `value` since the ranker's previous run with the same metric.
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
    warnings: int
    metric: str
    value: float | None
    change: float | None
    has_page: bool


def rows_of(runs: Sequence[StoredRun], now: datetime.datetime) -> list[RunRow]:
    """Returns the rows of runs, which are newest first."""
    rows, known = [], dict[tuple[str | None, str], float]()
    for run in reversed(runs):
        metric, value = _main(run)
        before = known.get((run.ranker, metric))
        change = value - before if value is not None and before is not None else None
        if value is not None:
            known[run.ranker, metric] = value
        rows.append(_row(run, now, change))
    return rows[::-1]


def _row(run: StoredRun, now: datetime.datetime, change: float | None) -> RunRow:
    took, record = run.seconds(now), run.record
    metric, value = _main(run)
    result = ""
    if record and record.pushed:
        result = f"version {record.pushed.version}"
    elif record and record.failed_step:
        result = f"in {record.failed_step}"
    elif run.problem:
        result = run.problem
    elif run.state == "killed":
        result = outcome_of(run).short
    return RunRow(
        id=run.id,
        ranker=run.ranker or "",
        state=run.state,
        tone=TONES[run.state],
        date=run.date,
        started=minute(run.started) if run.started else "",
        took=(shown_seconds if record else duration)(took) if took is not None else "",
        result=result,
        warnings=len(record.warnings) if record else 0,
        metric=metric,
        value=value,
        change=change,
        has_page=has_page(run),
    )


def has_page(run: StoredRun) -> bool:
    """Returns whether the run has its own page."""
    return run.folder.page.is_file()


def _main(run: StoredRun) -> tuple[str, float | None]:
    return main_of_run(run.record.tasks) if run.record else ("", None)
