"""Puts the record and the charts of a run into the page."""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from markupsafe import Markup

from sangam.components.page import figures
from sangam.components.page.environment import environment
from sangam.components.page.facts import Facts, PageContext
from sangam.components.record.outcome import outcome_of
from sangam.components.record.run import RunRecord
from sangam.components.record.store import runs_before, stored
from sangam.components.reports.evaluation import GateVerdict, TaskVerdict
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
    """A slice of a task: examples, AUC with interval, calibration, and the difference from the AUC of all examples."""

    name: str
    examples: float
    auc: float | None
    interval: tuple[float, float] | None
    calibration: float | None


@dataclass(frozen=True)
class TaskPart:
    """The page's data of one task.

    Attributes:
        name: name of the task.
        judged: verdict with metrics, intervals and gates.
        headline: tightest gate on AUC; None without one.
        previous: AUC of the last blessed model before.
        charts: charts in order.
        history: chart of the last 30 days.
        slices: slices, the worst first.
    """

    name: str
    judged: TaskVerdict
    headline: GateVerdict | None
    previous: float | None
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
            features=[(each, figures.feature(each)) for each in facts.features[:MAX_FEATURES] if each.distribution],
            more_features=max(0, len(facts.features) - MAX_FEATURES),
            longest_step=max((step.seconds or 0.0 for step in record.steps.values()), default=0.0),
            largest_table=max((table.bytes for table in record.training.tables.values()), default=0)
            if record.training
            else 0,
        )
    )


def _tasks(record: RunRecord, facts: Facts, past: Sequence[RunRecord]) -> Iterator[TaskPart]:
    for name, judged in record.tasks.items():
        auc, bound = judged.auc, _headline(judged)
        curve, charts = facts.curves.get(name), []
        if curve is not None:
            rate = judged.metrics.get("mean_label")
            charts += [figures.roc(name, curve, auc), figures.precision_recall(name, curve, rate)]
        if judged.calibration_buckets:
            charts.append(figures.calibration(name, judged.calibration_buckets))
        if curve is not None:
            charts.append(figures.scores(name, curve))
        blessed = [run.tasks[name].auc for run in past if run.blessed and name in run.tasks]
        yield TaskPart(
            name=name,
            judged=judged,
            headline=bound,
            previous=blessed[-1] if blessed else None,
            charts=charts,
            history=figures.history(name, past, record.date or "this run", auc, bound.bound if bound else None)
            if past and auc is not None
            else None,
            slices=_slices(judged),
        )


def _headline(judged: TaskVerdict) -> GateVerdict | None:
    gates = [gate for gate in judged.gates if (gate.kind, gate.metric, gate.slice) == ("value", "auc", "")]
    return max(gates, key=lambda gate: gate.bound, default=None)


def _slices(judged: TaskVerdict) -> list[SliceRow]:
    rows = [
        SliceRow(
            name=name,
            examples=metrics.get("num_examples") or 0.0,
            auc=metrics.get("auc"),
            interval=judged.slice_intervals.get(name, {}).get("auc"),
            calibration=metrics.get("calibration"),
        )
        for name, metrics in judged.slices.items()
    ]
    return sorted(rows, key=lambda row: (row.auc is None, row.auc or 0.0))[:MAX_SLICES]


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


def _spent(facts: Facts) -> list[tuple[str, float]]:
    """Returns the seconds of a training by activity."""
    training = facts.training
    if training is None:
        return []
    epochs = training["epochs"]
    waited = sum(epoch["input_wait"] * epoch["seconds"] for epoch in epochs)
    evicted = sum(epoch["evict_s"] for epoch in epochs)
    blocked, trained = training["checkpoint"]["blocked_s"], sum(epoch["seconds"] for epoch in epochs)
    parts = {
        "steps": trained - waited - evicted - blocked,
        "waiting for input": waited,
        "removing rows": evicted,
        "checkpoints": blocked,
        "validation and the rest": training["seconds"] - trained,
    }
    return [(name, max(seconds, 0.0)) for name, seconds in parts.items()]
