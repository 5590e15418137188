"""Two runs side by side: metrics, spec, data, and overlaid curves."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup

from sangam.components.page.collect import collect
from sangam.components.page.facts import Facts
from sangam.components.record.store import StoredRun
from sangam.components.reports.evaluation import shown_value
from sangam.pipelines.history.difference import Change, changes
from sangam.pipelines.local.outputs import read_outputs
from sangam.pipelines.ui import figures
from sangam.schemas.parts.judging import Direction
from sangam.schemas.spec.metrics import UNCALIBRATED_METRIC, direction

_SHOWN_DAYS = 4
_FIRST = ("auc", "rmse")
_REST = {"code": "Code", "tables": "Rows of the tables", "seconds": "Time"}
_CURVES_OF = {"training": ("trainer", "training"), "evaluation": ("evaluator", "evaluation")}


@dataclass(frozen=True)
class MetricRow:
    """A metric of a task in both runs.

    Attributes:
        tone: `good` or `bad` if the second run is better or worse; empty if neither.
        is_judged: whether the metric has a better direction, unlike counts and means.
    """

    task: str
    metric: str
    old: float | None
    new: float | None
    tone: Literal["good", "bad", ""]
    is_judged: bool = True

    @property
    def difference(self) -> float | None:
        """New minus old; None if either is missing."""
        return self.new - self.old if self.new is not None and self.old is not None else None

    @property
    def shown(self) -> tuple[str, str, str]:
        """Both values and their difference, as text."""
        change = self.difference
        sign = "+" if change and change > 0 else "−" if change else ""
        values = (self.old, self.new, None if change is None else abs(change))
        old, new, by = ("–" if value is None else shown_value(self.metric, value) for value in values)
        return old, new, sign + by


@dataclass(frozen=True)
class DataRow:
    """A property of the data in both runs, as text; `difference` only for numbers."""

    what: str
    old: str
    new: str
    difference: str = ""


@dataclass(frozen=True)
class Comparison:
    """The content of the page of two runs.

    Attributes:
        metrics: metrics of both runs by task, equal and different ones.
        curves: charts, each with both runs.
        spec: differing settings.
        data: days, examples, and dropped rows.
        rest: other changes by title, such as code, tables and seconds.
        lacks: sentence on unreadable data of the curves; empty if all was read.
    """

    old: StoredRun
    new: StoredRun
    metrics: list[MetricRow]
    curves: list[Markup]
    spec: list[Change]
    data: list[DataRow]
    rest: dict[str, list[Change]]
    lacks: str = ""


def compare(old: StoredRun, new: StoredRun, facts: tuple[Facts, Facts], lacks: str = "") -> Comparison:
    """Returns the comparison of two runs, with facts from the outputs of their steps."""
    found = changes(old, new)
    return Comparison(
        old,
        new,
        metrics=list(metric_rows(old, new)),
        curves=list(_curves(*facts)),
        spec=[change for change in found if change.section == "spec"],
        data=list(data_rows(old, new)),
        rest={
            title: [change for change in found if change.section == section]
            for section, title in _REST.items()
            if any(change.section == section for change in found)
        },
        lacks=lacks,
    )


def metric_rows(old: StoredRun, new: StoredRun) -> Iterator[MetricRow]:
    """Yields the metrics of both runs by task, the main metrics first."""
    before, after = _metrics(old), _metrics(new)
    tasks = list(dict.fromkeys(task for task, _ in (*before, *after)))
    known = dict.fromkeys((*before, *after))
    for task, metric in sorted(known, key=lambda each: (tasks.index(each[0]), each[1] not in _FIRST)):
        values = before.get((task, metric)), after.get((task, metric))
        better = _direction(task, metric, old, new)
        yield MetricRow(task, metric, *values, tone=_tone(better, *values), is_judged=better is not None)


def _metrics(run: StoredRun) -> dict[tuple[str, str], float | None]:
    tasks = run.record.tasks if run.record else {}
    return {(name, metric): value for name, task in tasks.items() for metric, value in task.metrics.items()}


def _direction(task: str, metric: str, *runs: StoredRun) -> Direction | None:
    judged = [run.record.tasks[task].directions for run in runs if run.record and task in run.record.tasks]
    try:
        return direction(metric.removeprefix(UNCALIBRATED_METRIC), ChainMap(*map(dict, judged)))
    except KeyError:
        return None


def _tone(better: Direction | None, old: float | None, new: float | None) -> Literal["good", "bad", ""]:
    if better is None or old is None or new is None or old == new:
        return ""
    if better == "target":
        return "good" if abs(new - 1) < abs(old - 1) else "bad"
    return "good" if (new > old) == (better == "higher") else "bad"


def data_rows(old: StoredRun, new: StoredRun) -> Iterator[DataRow]:
    """Yields days, examples and dropped rows by split."""
    first, second = old.record, new.record
    if first is None or second is None:
        return
    for split in dict.fromkeys((*first.days, *second.days)):
        before, after = first.days.get(split, []), second.days.get(split, [])
        yield DataRow(f"{split} days", _span(before), _span(after), _signed(len(after) - len(before)))
        left, came = sorted({*before} - {*after}), sorted({*after} - {*before})
        if left or came:
            yield DataRow(f"{split} days in one run only", _few(left), _few(came))
    for split in dict.fromkeys((*first.rows, *second.rows)):
        rows = first.rows.get(split), second.rows.get(split)
        yield _counted(f"{split} examples", *(each.written if each else None for each in rows))
        for reason in dict.fromkeys(reason for each in rows if each for reason in each.dropped):
            left_out = (each.dropped.get(reason, 0) if each else None for each in rows)
            yield _counted(f"{split} rows left out: {reason}", *left_out)
    yield DataRow("days without logs", _few(first.missing_days), _few(second.missing_days))
    yield DataRow("base trained to", first.base_last_day or "from nothing", second.base_last_day or "from nothing")
    if first.data != second.data:
        yield DataRow("folder of the logs", first.data or "not known", second.data or "not known")


def _counted(what: str, old: int | None, new: int | None) -> DataRow:
    first, second = (f"{value:,}" if value is not None else "–" for value in (old, new))
    return DataRow(what, first, second, _signed(new - old) if old is not None and new is not None else "")


def _signed(difference: int) -> str:
    return f"{difference:+,d}".replace("-", "−") if difference else ""


def _span(days: Sequence[str]) -> str:
    if not days:
        return "none"
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]} ({len(days)})"


def _few(days: Sequence[str]) -> str:
    if not days:
        return "none"
    more = f" and {len(days) - _SHOWN_DAYS} more" if len(days) > _SHOWN_DAYS else ""
    return ", ".join(days[:_SHOWN_DAYS]) + more


def read_facts(old: StoredRun, new: StoredRun) -> tuple[Facts, Facts]:
    """Reads the outputs of the trainings and evaluations of two runs of a root.

    Raises:
        UserError: ML Metadata cannot be read, for example during a write by a run.
    """
    outputs = read_outputs(old.root).outputs
    found: list[Facts] = []
    for run in (old, new):
        of_run: dict[str, Path] = {
            name: output.path
            for name, place in _CURVES_OF.items()
            for output in outputs
            if (output.step, output.key) == place and run.id in output.runs
        }
        found.append(collect(of_run))
    return found[0], found[1]


def _curves(old: Facts, new: Facts) -> Iterator[Markup]:
    for task in dict.fromkeys((*old.curves, *new.curves)):
        yield figures.roc_of_two(task, old.curves.get(task), new.curves.get(task))
    before, after = _losses(old), _losses(new)
    for task in dict.fromkeys((*before, *after)):
        yield figures.loss_of_two(task, before.get(task, []), after.get(task, []))
    scored = _validation(old), _validation(new)
    for what in dict.fromkeys((*scored[0], *scored[1])):
        yield figures.validation_of_two(what, scored[0].get(what, []), scored[1].get(what, []))


def _losses(facts: Facts) -> dict[str, list[float]]:
    epochs = (facts.training or {}).get("epochs") or []
    if facts.losses is None or not len(facts.losses) or not epochs:
        return {}
    return {task: facts.losses[:, number].tolist() for number, task in enumerate(epochs[0]["mean_loss"])}


def _validation(facts: Facts) -> dict[str, list[float | None]]:
    """Returns the metrics of the validation split by epoch: `like auc`."""
    found: dict[str, list[float | None]] = {}
    epochs: Sequence[Mapping[str, Any]] = (facts.training or {}).get("epochs") or []
    for epoch in epochs:
        for task, metrics in epoch.get("validation", {}).items():
            for metric, value in metrics.items():
                found.setdefault(f"{task} {metric}", []).append(value)
    return found
