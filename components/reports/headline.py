"""The row of a task: its gated metric by name, the bound, the last model's value, the difference, and calibration."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from sangam.components.reports.evaluation import Difference, TaskVerdict
from sangam.schemas.parts.judging import Direction

_DECLARED = ("value", "change", "gain")
"""Kinds of gates that a spec declares on a metric."""


@dataclass(frozen=True)
class Headline:
    """A task's main metric over all examples.

    Attributes:
        metric: name of the metric.
        value: its value; None where it is undefined.
        interval: ends of its confidence interval; None without one.
        bound: the tightest declared bound on the value itself; None without one.
        bound_text: the same in words, such as `at least 0.6`; empty without one.
        last: the last blessed model's value on the same examples; None without one.
        difference: value minus `last`, with its interval.
        rate: mean label; for a binary task the rate of positives.
        is_binary: whether the task is binary.
        better: direction of the metric's better values.
        calibration: mean prediction over mean label; None where it is undefined.
        calibration_error: expected calibration error (ECE) of a binary task; None of others.
    """

    metric: str
    value: float | None
    interval: tuple[float, float] | None = None
    bound: float | None = None
    bound_text: str = ""
    last: float | None = None
    difference: Difference | None = None
    rate: float | None = None
    is_binary: bool = True
    better: Direction = "higher"
    calibration: float | None = None
    calibration_error: float | None = None

    @property
    def shown_value(self) -> str:
        """The value with its interval, as text."""
        if self.value is None:
            return "undefined"
        return f"{self.value:.4f}{f' [{self.interval[0]:.4f}, {self.interval[1]:.4f}]' if self.interval else ''}"

    @property
    def shown_difference(self) -> str:
        """The difference with its interval, as text; empty without one."""
        change = self.difference
        if change is None:
            return ""
        ends = None if change.lower is None or change.upper is None else f" [{change.lower:+.4f}, {change.upper:+.4f}]"
        return f"{change.value:+.4f}{ends or ''}"

    @property
    def shown_rate(self) -> str:
        """The rate of positives, or the mean label, as text."""
        if self.rate is None:
            return ""
        return f"{100 * self.rate:.3g} % positive" if self.is_binary else f"mean {self.rate:.4g}"

    @property
    def shown_calibration(self) -> str:
        """Predicted over observed, as text; empty where it is undefined."""
        return "" if self.calibration is None else f"{self.calibration:.3f}"

    @property
    def shown_calibration_error(self) -> str:
        """The expected calibration error, as text; empty without one."""
        return "" if self.calibration_error is None else f"{self.calibration_error:.4f}"

    @property
    def tone(self) -> str:
        """`good` or `bad` if the difference's interval excludes zero, else empty."""
        change = self.difference
        if change is None or change.lower is None or change.upper is None or change.lower <= 0 <= change.upper:
            return ""
        return "" if self.better == "target" else "good" if (change.value > 0) == (self.better == "higher") else "bad"


def headline_of(task: TaskVerdict) -> Headline:
    """Returns a task's row: of its first gate over all examples, else of AUC or RMSE."""
    metric = main_metric(task)
    bound, text = _bound(task, metric)
    return Headline(
        metric=metric,
        value=task.metrics.get(metric),
        interval=task.intervals.get(metric),
        bound=bound,
        bound_text=text,
        last=task.baseline.get(metric),
        difference=task.differences.get(metric),
        rate=task.metrics.get("mean_label"),
        is_binary="rmse" not in task.metrics,
        better=task.direction(metric),
        calibration=task.metrics.get("calibration"),
        calibration_error=task.metrics.get("calibration_error"),
    )


def main_metric(task: TaskVerdict) -> str:
    """Returns the metric of the first gate over all examples; one whose better values are higher or lower, if any."""
    gated = [gate.metric for gate in task.gates if gate.kind in _DECLARED and not gate.slice]
    ranked = [metric for metric in gated if task.direction(metric) != "target"]
    return next(iter([*ranked, *gated]), "rmse" if "rmse" in task.metrics and "auc" not in task.metrics else "auc")


def main_of_run(tasks: Mapping[str, TaskVerdict]) -> tuple[str, float | None]:
    """Returns the name and value of a run's main metric: the mean over tasks that share one, else the first task's.

    Empty without tasks.
    """
    mains = {name: headline_of(task) for name, task in tasks.items()}
    if not mains:
        return "", None
    first, metric = next(iter(mains.items()))
    if len({each.metric for each in mains.values()}) > 1:
        return f"{metric.metric} of {first}", metric.value
    known = [each.value for each in mains.values() if each.value is not None]
    prefix = "mean " if len(mains) > 1 else ""
    return f"{prefix}{metric.metric}", sum(known) / len(known) if known else None


def calibration_of_run(tasks: Mapping[str, TaskVerdict]) -> float | None:
    """Returns predicted over observed of the task that is furthest from 1; None where it is known of none."""
    known = [task.metrics.get("calibration") for task in tasks.values()]
    return max((each for each in known if each and each > 0), key=lambda each: abs(log(each)), default=None)


def _bound(task: TaskVerdict, metric: str) -> tuple[float | None, str]:
    gates = [gate for gate in task.gates if (gate.kind, gate.metric, gate.slice) == ("value", metric, "")]
    if not gates:
        return None, ""
    if band := next((gate for gate in gates if gate.upper_bound is not None), None):
        return band.bound, f"{band.bound:g} to {band.upper_bound:g}"
    is_higher = task.direction(metric) == "higher"
    tightest = (max if is_higher else min)(gate.bound for gate in gates)
    return tightest, f"at {'least' if is_higher else 'most'} {tightest:g}"
