"""The page of all runs of a root."""

import datetime
import os
from collections.abc import Callable
from pathlib import Path

from components.alerts.refusal import refusal
from components.registry import versions
from components.reports.page.overview import OverviewRun, render_overview
from pipelines.local.result.summary import Summary, read_summaries
from schemas.contracts.root import PAGE_FILE, Root, RunFolder
from schemas.errors import UserError
from schemas.host.files import write_whole

PageOf = Callable[[RunFolder], str | None]
"""Returns the address of a run's page for a link; None: it has none."""


def write_overview(root: Root, output: Path, *, first: datetime.date, ranker: str | None) -> int:
    """Writes the page of the runs since a day; returns their number.

    Args:
        root: with runs.
        output: the file.
        first: day, of the evaluation; of the run where logs have no days.
        ranker: name; None: all.

    Raises:
        UserError: there is no such run.
    """

    def page_of(folder: RunFolder) -> str | None:
        page = folder.path / PAGE_FILE
        return os.path.relpath(page, output.absolute().parent) if page.exists() else None

    number, page = overview(root, page_of, first=first, ranker=ranker)
    write_whole(output, page)
    return number


def overview(root: Root, page_of: PageOf, *, first: datetime.date, ranker: str | None) -> tuple[int, str]:
    """Returns the number of the runs since a day, and their page.

    Args:
        root: with runs.
        page_of: where each row leads.
        first: as in `write_overview`.
        ranker: likewise.

    Raises:
        UserError: there is no such run.
    """
    runs: dict[str, list[OverviewRun]] = {}
    for folder, summary in read_summaries(root):
        day = _day(summary)
        if day >= str(first) and ranker in (None, summary.name):
            runs.setdefault(summary.name, []).append(_run(folder, summary, day, page_of))
    if not runs:
        which = f" of {ranker}" if ranker else ""
        raise UserError(
            f"{root.runs}: has no finished run{which} since {first}; give another --last, or run a spec first"
        )
    ordered = {name: sorted(runs[name], key=lambda run: (run.date, run.name)) for name in sorted(runs)}
    return sum(map(len, ordered.values())), render_overview(ordered, since=str(first))


def newest_day(root: Root) -> datetime.date | None:
    """Returns the last day that a run was for."""
    return max((datetime.date.fromisoformat(_day(summary)) for _, summary in read_summaries(root)), default=None)


def _day(summary: Summary) -> str:
    started = summary.run[:8]
    return summary.date or f"{started[:4]}-{started[4:6]}-{started[6:]}"


def _run(folder: RunFolder, summary: Summary, day: str, page_of: PageOf) -> OverviewRun:
    withdrawn = None
    if summary.pushed:
        place = Path(summary.pushed.path)
        if place.parent.is_dir():
            withdrawn = versions.withdrawn(place.parent).get(place.name)
    return OverviewRun(
        name=summary.run,
        date=day,
        status=summary.status,
        blessed=summary.blessed,
        pushed=summary.pushed.version if summary.pushed else None,
        rolled_back=None if withdrawn is None else withdrawn.because or "no reason is recorded",
        why=_why(summary),
        auc={name: task.auc for name, task in summary.tasks.items()},
        bounds={
            name: max(bounds)
            for name, task in summary.tasks.items()
            if (
                bounds := [
                    gate.bound for gate in task.gates if (gate.kind, gate.metric, gate.slice) == ("value", "auc", "")
                ]
            )
        },
        seconds={name: step.seconds for name, step in summary.steps.items()},
        total_seconds=summary.total_seconds,
        cost=dict(summary.cost.by_step) if summary.cost else {},
        currency=summary.cost.currency if summary.cost else "",
        page=page_of(folder),
    )


def _why(summary: Summary) -> str:
    if summary.error:
        return summary.error.splitlines()[0]
    gates = ((name, gate) for name, task in summary.tasks.items() for gate in task.gates)
    return next(iter(refusal(gates, summary.serving.checks if summary.serving else ()).splitlines()), "")
