"""Puts the record and the charts of a run into the page."""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from markupsafe import Markup

from sangam.components.page import figures, importance
from sangam.components.page.environment import environment
from sangam.components.page.facts import Facts, PageContext
from sangam.components.record.outcome import outcome_of
from sangam.components.record.run import RunRecord
from sangam.components.record.store import runs_before, stored
from sangam.components.reports.evaluation import TaskVerdict
from sangam.components.reports.headline import Headline, headline_of
from sangam.components.reports.spec_file import spec_changes, spec_text
from sangam.schemas.host.files import write_whole

NO_CONTEXT = PageContext()

_PAST_DAYS = 30
MAX_FEATURES = 40
"""Columns with a chart: those that differ most between the splits."""
MAX_SLICES = 30
MAX_TABLES = 12
"""Maximum number of tables with a chart of their rows by norm."""


@dataclass(frozen=True)
class SliceRow:
    """A slice of a task: examples, the task's main metric with its interval, and calibration."""

    name: str
    examples: float
    value: float | None
    interval: tuple[float, float] | None
    calibration: float | None


@dataclass(frozen=True)
class TaskPart:
    """The page's data of one task.

    Attributes:
        name: name of the task.
        judged: verdict with metrics, intervals and gates.
        main: main metric with its bound, beside the last model's.
        charts: charts in order.
        history: chart of the last 30 days.
        slices: slices, the worst first.
    """

    name: str
    judged: TaskVerdict
    main: Headline
    charts: list[Markup]
    history: Markup | None
    slices: list[SliceRow]


def draw(record: RunRecord, facts: Facts, context: PageContext = NO_CONTEXT) -> Path:
    """Writes the page, with a comparison to earlier runs, into the run's folder; returns the file."""
    run, before = stored(record), runs_before(record)
    page = render(
        record,
        facts,
        context,
        past=past_runs((other.record for other in before if other.record), record.date),
        spec=spec_text(run.folder) if run.folder.spec.exists() else "",
        changes=spec_changes(before[-1].folder, run.folder) if before else None,
    )
    write_whole(run.folder.page, page)
    return run.folder.page


def past_runs(before: Iterable[RunRecord], date: str | None) -> list[RunRecord]:
    """Returns the last run with a result of each of the 30 days before a date, the oldest day first.

    Args:
        before: runs of the same ranker, in the order in which they ran.
        date: date of the page's run; None for logs without days.
    """
    if date is None:
        return []
    first = str(datetime.date.fromisoformat(date) - datetime.timedelta(days=_PAST_DAYS))
    by_date = {run.date: run for run in before if run.tasks and run.date and first <= run.date < date}
    return [by_date[day] for day in sorted(by_date)]


def render(
    record: RunRecord,
    facts: Facts,
    context: PageContext = NO_CONTEXT,
    *,
    past: Sequence[RunRecord] = (),
    spec: str = "",
    changes: Sequence[tuple[str, str, str]] | None = None,
) -> str:
    """Returns the page.

    Args:
        record: record of the run, with the reports of its steps.
        facts: data of the charts.
        context: other data of the run.
        past: runs of earlier days, oldest first.
        spec: spec as YAML.
        changes: changes of the spec since the previous run: path, before, after; None without a previous run or spec.
    """
    return (
        environment()
        .get_template("report.html")
        .render(
            run=record,
            facts=facts,
            context=context,
            spec=spec,
            spec_changes=changes,
            outcome=outcome_of(stored(record)),
            tasks=list(_tasks(record, facts, past)),
            training_charts=list(_training(facts)),
            norms=[figures.norms(name, counts) for name, counts in _norms(facts)],
            spent=_spent(facts),
            importances=importance.parts(facts.importances),
            shade=figures.SHADE,
            features=[(each, figures.feature(each)) for each in facts.features[:MAX_FEATURES] if each.distribution],
            more_features=max(0, len(facts.features) - MAX_FEATURES),
            between=_between(record),
            longest_step=max((step.seconds or 0.0 for step in record.steps.values()), default=0.0),
            largest_table=max((table.bytes for table in record.training.tables.values()), default=0)
            if record.training
            else 0,
        )
    )


def _between(record: RunRecord) -> float | None:
    """Returns the seconds of a run outside its steps; None where steps ran at the same time, as on Kubeflow."""
    rest = record.total_seconds - sum(step.seconds or 0.0 for step in record.steps.values())
    return rest if rest >= 0 and record.runner == "local" else None


def _tasks(record: RunRecord, facts: Facts, past: Sequence[RunRecord]) -> Iterator[TaskPart]:
    for name, judged in record.tasks.items():
        main = headline_of(judged)
        curve, charts = facts.curves.get(name), []
        if curve is not None:
            rate = judged.metrics.get("mean_label")
            charts += [figures.roc(name, curve, judged.auc), figures.precision_recall(name, curve, rate)]
        if judged.calibration_buckets:
            charts.append(figures.calibration(name, judged.calibration_buckets))
        if curve is not None:
            charts.append(figures.scores(name, curve))
        yield TaskPart(
            name=name,
            judged=judged,
            main=main,
            charts=charts,
            history=figures.history(name, main, past, record.date or "this run")
            if past and main.value is not None
            else None,
            slices=_slices(judged, main.metric),
        )


def _slices(judged: TaskVerdict, metric: str) -> list[SliceRow]:
    rows = [
        SliceRow(
            name=name,
            examples=metrics.get("num_examples") or 0.0,
            value=metrics.get(metric),
            interval=judged.slice_intervals.get(name, {}).get(metric),
            calibration=metrics.get("calibration"),
        )
        for name, metrics in judged.slices.items()
    ]
    sign = -1.0 if judged.direction(metric) == "lower" else 1.0
    return sorted(rows, key=lambda row: (row.value is None, sign * (row.value or 0.0)))[:MAX_SLICES]


def _training(facts: Facts) -> Iterator[Markup]:
    training = facts.training
    if training is None or facts.losses is None or not len(facts.losses):
        return
    ends = list(accumulate(epoch["steps"] for epoch in training["epochs"]))
    tasks = list(training["epochs"][0]["mean_loss"]) if training["epochs"] else []
    for number, task in enumerate(tasks):
        yield figures.loss(task, facts.losses[:, number].tolist(), ends)
    if shown := training.get("learning_rates"):
        yield figures.rates(shown["steps"], {"dense weights": shown["dense"], "rows": shown["rows"]})


def _norms(facts: Facts) -> list[tuple[str, list[int]]]:
    """Returns the counts of rows by norm of the largest tables."""
    tables = (facts.training or {}).get("tables", {})
    found = [(name, table["norms"]) for name, table in tables.items() if any(table.get("norms", ()))]
    return sorted(found, key=lambda each: -sum(each[1]))[:MAX_TABLES]


def _spent(facts: Facts) -> list[tuple[str, float, float | None]]:
    """Returns the seconds of a training by activity, with the share of the epochs; None outside of them."""
    training = facts.training
    if training is None:
        return []
    epochs = training["epochs"]
    waited = sum(epoch["input_wait"] * epoch["seconds"] for epoch in epochs)
    for_ranks = sum((epoch["rank_wait"] or 0.0) * epoch["seconds"] for epoch in epochs)
    evicted = sum(epoch["evict_s"] for epoch in epochs)
    blocked, trained = training["checkpoint"]["blocked_s"], sum(epoch["seconds"] for epoch in epochs)
    parts = {
        "steps": trained - waited - for_ranks - evicted - blocked,
        "waiting for input": waited,
        "waiting for other ranks": for_ranks,
        "removing rows": evicted,
        "checkpoints": blocked,
    }
    spent = {name: max(seconds, 0.0) for name, seconds in parts.items()}
    shares = [(name, seconds, seconds / trained if trained else 0.0) for name, seconds in spent.items()]
    return [*shares, ("start, validation and the rest", max(training["seconds"] - trained, 0.0), None)]
