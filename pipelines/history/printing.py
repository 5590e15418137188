"""What `sangam runs` prints of a root, in the columns and words that it has for Kubeflow."""

import datetime
from collections.abc import Sequence

from rich.console import Console

from pipelines.console import table
from pipelines.history.runs import LocalRun
from pipelines.times import duration, minute

_STYLES = {"succeeded": "green", "refused": "yellow", "running": "yellow"}


def print_runs(runs: Sequence[LocalRun], now: datetime.datetime, console: Console) -> None:
    """Prints a table of runs, newest first; with their rankers where there are several."""
    is_mixed = len({run.ranker for run in runs}) > 1
    shown = table()
    for name in ("date", "run", *(["ranker"] if is_mixed else []), "state", "started (UTC)"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("took", justify="right", no_wrap=True)
    for name in ("failed step", "pushed", "mean auc"):
        shown.add_column(name, no_wrap=True)
    for run in runs:
        took, summary = run.seconds(now), run.summary
        shown.add_row(
            run.date,
            run.id,
            *([run.ranker or ""] if is_mixed else []),
            f"[{_STYLES.get(run.state, 'red')}]{run.state}[/]",
            minute(run.started) if run.started else "",
            duration(took) if took is not None else "",
            (summary.failed_step if summary else None) or "",
            summary.pushed.version if summary and summary.pushed else "",
            f"{run.mean_auc:.4f}" if run.mean_auc is not None else "",
        )
    console.print(shown)
