"""The page of many runs: metrics by day with the bounds, pushes, refusals and rollbacks, and the seconds."""

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sangam.components.page import figures
from sangam.components.page.environment import environment
from sangam.components.record.outcome import Outcome, outcome_of
from sangam.components.record.run import RunRecord
from sangam.components.record.store import StoredRun, all_runs
from sangam.components.reports.headline import Headline, headline_of
from sangam.schemas.contracts.root import Root, RunFolder
from sangam.schemas.errors import UserError

_MOST_TASKS = 5
"""Tasks with a column in the table of the runs."""
PageOf = Callable[[RunFolder], str | None]
"""Returns the address of a run's page for a link; None without a page."""


@dataclass(frozen=True)
class OverviewRun:
    """One run of a ranker, its outcome, and the address of its page relative to this one; None without a page."""

    run: StoredRun
    outcome: Outcome
    page: str | None = None

    @property
    def date(self) -> str:
        """The run's date, else the day of its start; empty if both are unknown."""
        return self.run.date or (f"{self.run.started:%Y-%m-%d}" if self.run.started else "")

    @property
    def record(self) -> RunRecord | None:
        """The record, if it can be read."""
        return self.run.record

    def main(self, task: str) -> Headline | None:
        """The main metric of a task with its bound."""
        found = self.record.tasks.get(task) if self.record else None
        return headline_of(found) if found else None


@dataclass(frozen=True)
class StepRow:
    """A step over all runs that reached it: mean and sum of its seconds, and of its cost in the newest currency."""

    name: str
    runs: int
    mean_seconds: float
    seconds: float
    mean_cost: float | None
    cost: float | None


@dataclass(frozen=True)
class _Ranker:
    name: str
    runs: Sequence[OverviewRun]
    outcomes: Counter[str]
    tasks: list[str]
    charts: list[Markup]
    steps: list[StepRow]
    currency: str


def overview(root: Root, page_of: PageOf, *, first: datetime.date, ranker: str | None = None) -> tuple[int, str]:
    """Returns the number of the runs since a day, and their page, which marks unreadable runs.

    Args:
        root: root with the runs.
        page_of: target of each row's link.
        first: first date of the runs.
        ranker: name of the ranker; None: all.

    Raises:
        UserError: there is no run since that day.
    """
    shown = [OverviewRun(run, outcome_of(run), page_of(run.folder)) for run in all_runs(root) if _has_ended(run)]
    shown = [each for each in shown if each.date >= str(first) and ranker in (None, each.run.ranker)]
    if not shown:
        which = f" of {ranker}" if ranker else ""
        raise UserError(
            f"{root.runs}: has no finished run{which} since {first}; give another --last, or run a spec first"
        )
    by_ranker: dict[str, list[OverviewRun]] = {}
    for each in sorted(shown, key=lambda each: (each.run.ranker or "", each.date, each.run.id)):
        by_ranker.setdefault(each.run.ranker or "unknown ranker", []).append(each)
    rankers = [_ranker(name, runs) for name, runs in by_ranker.items()]
    return len(shown), environment().get_template("overview.html").render(
        rankers=rankers, since=str(first), most_tasks=_MOST_TASKS
    )


def newest_day(root: Root) -> datetime.date | None:
    """Returns the newest date of the runs."""
    shown = (OverviewRun(run, outcome_of(run)).date for run in all_runs(root) if _has_ended(run))
    return max((datetime.date.fromisoformat(date) for date in shown if date), default=None)


def _has_ended(run: StoredRun) -> bool:
    return run.record is not None or run.state == "unreadable"


def _ranker(name: str, runs: Sequence[OverviewRun]) -> _Ranker:
    costs = [run.record.cost for run in runs if run.record and run.record.cost]
    currency = costs[-1].currency if costs else ""
    tasks = list(dict.fromkeys(task for run in runs if run.record for task in run.record.tasks))
    counts = Counter(run.outcome.word for run in runs)
    return _Ranker(name, runs, counts, tasks, _charts(runs, tasks), list(steps_of(runs, currency)), currency)


def steps_of(runs: Sequence[OverviewRun], currency: str) -> Iterator[StepRow]:
    """Yields the steps in their order; costs in other currencies than the newest are left out."""
    records = [run.record for run in runs if run.record]
    for name in dict.fromkeys(step for record in records for step in record.steps):
        seconds = [record.steps[name].seconds or 0.0 for record in records if name in record.steps]
        costs = [
            record.cost.by_step[name]
            for record in records
            if record.cost and record.cost.currency == currency and name in record.cost.by_step
        ]
        yield StepRow(
            name=name,
            runs=len(seconds),
            mean_seconds=sum(seconds) / len(seconds),
            seconds=sum(seconds),
            mean_cost=sum(costs) / len(costs) if costs else None,
            cost=sum(costs) if costs else None,
        )


def _by_day(task: str, runs: Sequence[OverviewRun]) -> Iterator[Markup]:
    """Yields a chart for each metric that has been the task's main one."""
    mains = [(run, main) for run in runs if (main := run.main(task)) and main.value is not None]
    for metric in dict.fromkeys(main.metric for _, main in mains):
        points = [
            (run.date, main.value, main.bound, run.outcome.word)
            for run, main in mains
            if main.metric == metric and main.value is not None
        ]
        yield figures.metric_by_day(task, metric, points)


def _charts(runs: Sequence[OverviewRun], tasks: Sequence[str]) -> list[Markup]:
    charts = [chart for task in tasks for chart in _by_day(task, runs)]
    seconds = [
        (run.date, {name: step.seconds or 0.0 for name, step in run.record.steps.items()}) for run in runs if run.record
    ]
    return [*charts, figures.seconds_by_day(seconds)] if seconds else charts
