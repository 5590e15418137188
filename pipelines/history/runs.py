"""Output of `sangam runs` for a root, with the same columns and words as for Kubeflow."""

import datetime
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from sangam.components.record.outcome import outcome_of
from sangam.components.record.store import StoredRun
from sangam.components.reports.headline import calibration_of_run, main_of_run
from sangam.pipelines.console import table
from sangam.pipelines.times import duration, minute
from sangam.schemas.quantities import shown_seconds

_STYLES = {"pushed": "green", "blessed": "green", "ended": "green", "refused": "yellow", "running": "yellow"}


def print_runs(runs: Sequence[StoredRun], now: datetime.datetime, console: Console) -> None:
    """Prints a table of runs, newest first, with a column for the ranker if there are several."""
    is_mixed = len({run.ranker for run in runs}) > 1
    shown = table()
    for name in ("date", "run", *(["ranker"] if is_mixed else []), "state", "started (UTC)"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("took", justify="right", no_wrap=True)
    for name in ("failed step", "version", "metric", "pred/obs"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("warnings", justify="right", no_wrap=True)
    for run in runs:
        took, record = run.seconds(now), run.record
        metric, value = main_of_run(record.tasks) if record else ("", None)
        calibration = calibration_of_run(record.tasks) if record else None
        warnings = len(record.warnings) if record else 0
        shown.add_row(
            run.date,
            run.id,
            *([run.ranker or ""] if is_mixed else []),
            Text(run.state, _STYLES.get(run.state, "red")),
            minute(run.started) if run.started else "",
            (shown_seconds if record else duration)(took) if took is not None else "",
            (record.failed_step if record else _lost(run)) or "",
            record.pushed.version if record and record.pushed else "",
            f"{metric} {value:.4f}" if value is not None else "",
            f"{calibration:.3f}" if calibration is not None else "",
            Text(str(warnings), "yellow") if warnings else "",
        )
    console.print(shown)


def document(run: StoredRun, now: datetime.datetime) -> dict[str, Any]:
    """Returns a run as JSON for programs, with the same keys as a run on Kubeflow."""
    record, finished = run.record, None
    if run.started and record:
        finished = run.started + datetime.timedelta(seconds=record.total_seconds)
    return {
        "id": run.id,
        "name": run.ranker,
        "date": run.date,
        "state": run.state,
        "started": _iso(run.started),
        "finished": _iso(finished),
        "seconds": run.seconds(now),
        "failed_step": record.failed_step if record else None,
        "error": (record.error if record else run.problem or _lost(run)) or None,
        "pushed": record.pushed.version if record and record.pushed else None,
        "warnings": record.warnings if record else [],
        "metrics": {name: task.metrics for name, task in record.tasks.items()} if record else {},
        "steps": [{"name": name, "state": step.state, "seconds": step.seconds} for name, step in run.steps.items()],
        "path": str(run.folder.path),
    }


def _lost(run: StoredRun) -> str:
    return outcome_of(run).short if run.state == "killed" else ""


def _iso(moment: datetime.datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else None
