"""Puts the facts and the charts of a run into the page."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

from components.reports.evaluation import GateVerdict, TaskVerdict
from components.reports.page import figures
from components.reports.page.environment import environment
from components.reports.page.facts import Facts, Run
from components.reports.page.verdict import Verdict, verdict_of

MAX_FEATURES = 40
"""Columns with a chart: those that differ most between the splits."""
MAX_SLICES = 30
MAX_TABLES = 12
"""Tables whose rows are drawn by norm."""


@dataclass(frozen=True)
class SliceRow:
    """A slice of a task: its examples, AUC with interval, calibration, and how far its AUC is from that of all."""

    name: str
    examples: float
    auc: float | None
    interval: tuple[float, float] | None
    calibration: float | None


@dataclass(frozen=True)
class TaskPart:
    """What the page says of one task.

    Attributes:
        name: of the task.
        judged: metrics, intervals and gates.
        headline: the gate on AUC that is tightest; None without one.
        previous: AUC of the last blessed model before.
        charts: in order.
        history: the last 30 days.
        slices: the worst first.
    """

    name: str
    judged: TaskVerdict
    headline: GateVerdict | None
    previous: float | None
    charts: list[Markup]
    history: Markup | None
    slices: list[SliceRow]


def render(run: Run, facts: Facts) -> str:
    """Returns the page."""
    verdict: Verdict = verdict_of(run, facts)
    return (
        environment()
        .get_template("report.html")
        .render(
            run=run,
            facts=facts,
            verdict=verdict,
            tasks=list(_tasks(run, facts)),
            training_charts=list(_training(facts)),
            norms=[figures.norms(name, counts) for name, counts in _norms(facts)],
            spent=_spent(facts),
            features=[(each, figures.feature(each)) for each in facts.features[:MAX_FEATURES] if each.distribution],
            more_features=max(0, len(facts.features) - MAX_FEATURES),
            longest_step=max((step.seconds for step in run.steps), default=0.0),
            largest_table=max(
                (table["bytes"] for table in (facts.training or {}).get("tables", {}).values()), default=0
            ),
        )
    )


def _tasks(run: Run, facts: Facts) -> Iterator[TaskPart]:
    for name, judged in facts.verdict.tasks.items() if facts.verdict else ():
        auc, bound = judged.metrics.get("auc"), _headline(judged)
        curve, charts = facts.curves.get(name), []
        if curve is not None:
            rate = judged.metrics.get("mean_label")
            charts += [figures.roc(name, curve, auc), figures.precision_recall(name, curve, rate)]
        if judged.calibration_buckets:
            charts.append(figures.calibration(name, judged.calibration_buckets))
        if curve is not None:
            charts.append(figures.scores(name, curve))
        blessed = [past.auc.get(name) for past in run.past if past.blessed]
        yield TaskPart(
            name=name,
            judged=judged,
            headline=bound,
            previous=blessed[-1] if blessed else None,
            charts=charts,
            history=figures.history(name, run.past, run.date or "this run", auc, bound.bound if bound else None)
            if run.past and auc is not None
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
    """Returns the rows by norm of the largest tables."""
    tables = (facts.training or {}).get("tables", {})
    found = [(name, table["norms"]) for name, table in tables.items() if any(table.get("norms", ()))]
    return sorted(found, key=lambda each: -sum(each[1]))[:MAX_TABLES]


def _spent(facts: Facts) -> list[tuple[str, float]]:
    """Returns what the seconds of a training went into."""
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
