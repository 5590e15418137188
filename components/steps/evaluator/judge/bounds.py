"""Checks the bounds of one gate on one slice, with a sentence for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sangam.components.reports.evaluation import GateVerdict
from sangam.components.steps.evaluator.metrics.measured import UNDEFINED, Measured, paired_change
from sangam.schemas.parts.judging import Direction
from sangam.schemas.spec.metrics import (
    SUM_OF_WEIGHTS,
    WEIGHTED_MEAN_LABEL,
    at_k,
    direction,
    needs_weights,
    without_weights,
)
from sangam.schemas.spec.release import Gate

_OF_REGRESSION_ALONE = ("rmse", "mae", "rank_correlation")


@dataclass(frozen=True)
class SliceMetrics:
    """The metrics of one task on one slice.

    Attributes:
        name: name of the slice; empty: all examples.
        candidate: metrics by name.
        baseline: metrics of the blessed model on the same examples; None without a baseline.
        level: level of the confidence intervals.
        directions: directions of the metrics that the spec declares.
    """

    name: str
    candidate: Mapping[str, Measured]
    baseline: Mapping[str, Measured] | None
    level: float
    directions: Mapping[str, Direction]

    def of(self, metric: str) -> Measured:
        """Returns a metric of the candidate."""
        return self.candidate.get(metric, UNDEFINED)

    def number(self, metric: str) -> float:
        """Returns a count, 0 if it was not measured."""
        return self.of(metric).value or 0.0


@dataclass(frozen=True)
class BoundResult:
    """A bound's verdict, and its distance from the bound: negative if the bound does not hold."""

    verdict: GateVerdict
    slack: float


def check(gate: Gate, metrics: SliceMetrics) -> Iterator[BoundResult]:
    """Yields a result for the bound or band of a gate, and for each of its bounds on the change, given a baseline."""
    candidate = metrics.of(gate.metric)
    if gate.at_least is not None or gate.at_most is not None:
        yield _value(gate, metrics, candidate)
    if metrics.baseline is None or not gate.is_relative:
        return
    baseline = metrics.baseline.get(gate.metric, UNDEFINED)
    for name, bound in relative_bounds(gate):
        if candidate.value is None:
            yield _fail(gate, metrics, name, bound, undefined(gate.metric, metrics))
        elif baseline.value is None:
            yield _fail(gate, metrics, name, bound, f"the blessed model's {_subject(gate, metrics)} is undefined")
        else:
            yield _relative(
                gate, metrics, name, bound, candidate.value, baseline.value, _better(gate, metrics, candidate, baseline)
            )


def relative_bounds(gate: Gate) -> list[tuple[str, float]]:
    """Returns the name and value of each bound on the change from the baseline."""
    bounds = (("max_drop", gate.max_drop), ("max_rise", gate.max_rise), ("min_gain", gate.min_gain))
    return [(name, bound) for name, bound in bounds if bound is not None]


def is_undefined_by_labels(metric: str, metrics: SliceMetrics) -> bool:
    """Returns whether the labels alone leave a metric undefined, for any predictions."""
    is_undefined = metrics.of(metric).value is None
    return is_undefined and metrics.number("non_finite") == 0 and _without_contrast(metric, metrics) is not None


def undefined(metric: str, metrics: SliceMetrics) -> str:
    """Returns why a metric has no value."""
    count, bad = metrics.number("num_examples"), metrics.number("non_finite")
    if bad > 0:
        why = f"{bad * count:,.0f} of {count:,.0f} predictions are no finite numbers"
    else:
        why = _without_contrast(metric, metrics) or (
            f"its value of the sums over {count:,.0f} examples is no finite number"
            if without_weights(metric) in metrics.directions
            else f"not all scores and labels of the {count:,.0f} examples are finite numbers that differ"
        )
    return f"{f'{metric} of {metrics.name}' if metrics.name else metric} is undefined: {why}"


def _without_contrast(metric: str, metrics: SliceMetrics) -> str | None:
    """Returns why the labels leave a metric undefined; None if they do not."""
    if metrics.of("num_examples").value == 0:
        return "no example takes part in the task"
    if metric == "gauc" and metrics.of("num_groups").value == 0:
        return "no group has labels of both classes"
    if at_k(metric) and metrics.of("num_lists").value == 0:
        return "no list has a positive label"
    if needs_weights(metric) and metrics.of(SUM_OF_WEIGHTS).value == 0:
        return f"the weights of all {metrics.number('num_examples'):,.0f} examples are 0"
    mean = metrics.of("mean_label").value
    of_numbers = "rmse" in metrics.candidate and without_weights(metric) in metrics.directions
    if of_numbers or without_weights(metric) in _OF_REGRESSION_ALONE:
        return None
    if mean in (0, 1):
        return f"all {metrics.number('num_examples'):,.0f} labels are {mean:.0f}"
    if needs_weights(metric) and (mean := metrics.of(WEIGHTED_MEAN_LABEL).value) in (0, 1):
        return f"the labels of all examples with a weight over 0 are {mean:.0f}"
    return None


def _subject(gate: Gate, metrics: SliceMetrics) -> str:
    return f"{gate.metric} of {metrics.name}" if metrics.name else gate.metric


def _value(gate: Gate, metrics: SliceMetrics, candidate: Measured) -> BoundResult:
    verdict = GateVerdict(
        kind="value",
        metric=gate.metric,
        slice=metrics.name,
        bound=_lower_bound(gate),
        upper_bound=gate.at_most if gate.at_least is not None else None,
        judge=gate.judge,
        value=candidate.value,
        lower=candidate.lower,
        upper=candidate.upper,
        passed=False,
        reason="",
    )
    if candidate.value is None:
        return _result(verdict, float("-inf"), undefined(gate.metric, metrics))
    low, high = (candidate.lower, candidate.upper) if gate.judge == "bound" else (candidate.value, candidate.value)
    if low is None or high is None:
        return _result(verdict, float("-inf"), _no_interval(gate, metrics, candidate.value))
    ends = []
    if gate.at_least is not None:
        ends.append((low - gate.at_least, "lower", low, gate.at_least))
    if gate.at_most is not None:
        ends.append((gate.at_most - high, "upper", high, gate.at_most))
    slack, end, value, bound = min(ends)
    shown, shown_bound = _shown(value, bound)
    if gate.judge == "bound":
        of_metric = f"of {_subject(gate, metrics)} {candidate.value:.4f}"
        subject = f"the {end} end {shown} of the {_percent(metrics)} interval {of_metric}"
    else:
        subject = f"{_subject(gate, metrics)} {shown}"
    beyond = "below" if end == "lower" else "above"
    if gate.at_least is not None and gate.at_most is not None:
        relation = f"{'within' if slack >= 0 else beyond} the band {gate.at_least:.4f} to {gate.at_most:.4f}"
    elif slack >= 0:
        relation = f"{'at least' if end == 'lower' else 'at most'} the bound {shown_bound}"
    else:
        relation = f"{beyond} the bound {shown_bound}"
    return _result(verdict, slack, f"{subject} is {relation}")


def _lower_bound(gate: Gate) -> float:
    bound = gate.at_least if gate.at_least is not None else gate.at_most
    if bound is None:
        raise ValueError(f"gate without a bound on the metric itself: {gate}")
    return bound


def _better(gate: Gate, metrics: SliceMetrics, candidate: Measured, baseline: Measured) -> Measured:
    """Returns by how much the candidate is better than the baseline, with the interval of the paired difference."""
    change = paired_change(candidate, baseline, metrics.level)
    return change if direction(gate.metric, metrics.directions) == "higher" else _negated(change)


def _negated(change: Measured) -> Measured:
    # 0.0 - x instead of -x: no change is 0, not -0.
    value, lower, upper = (None if end is None else 0.0 - end for end in (change.value, change.upper, change.lower))
    return Measured(value=value, lower=lower, upper=upper)


def _relative(
    gate: Gate, metrics: SliceMetrics, name: str, bound: float, value: float, baseline: float, better: Measured
) -> BoundResult:
    is_gain = name == "min_gain"
    change = better if is_gain else _negated(better)
    verdict = GateVerdict(
        kind="gain" if is_gain else "change",
        metric=gate.metric,
        slice=metrics.name,
        bound=bound,
        judge=gate.judge,
        value=change.value,
        lower=change.lower,
        upper=change.upper,
        passed=False,
        reason="",
    )
    if change.value is None:
        return _result(verdict, float("-inf"), f"the change of {_subject(gate, metrics)} is undefined")
    worst = (change.lower if is_gain else change.upper) if gate.judge == "bound" else change.value
    if worst is None:
        return _result(verdict, float("-inf"), _no_interval(gate, metrics, value))
    slack = worst - bound if is_gain else bound - worst
    shown, shown_bound = _shown(abs(worst), bound)
    difference = abs(value - baseline)
    shown_change = shown if gate.judge == "point" else _shown(difference, bound)[0]
    if difference == 0:
        comparison = f"equals the blessed model's {baseline:.4f}"
    else:
        comparison = f"is {shown_change} {'below' if value < baseline else 'above'} the blessed model's {baseline:.4f}"
    limit = f"{_relation(slack, is_gain=is_gain)} {name} {shown_bound}"
    if gate.judge == "bound":
        what = ("gain" if worst >= 0 else "loss") if is_gain else ("loss" if worst >= 0 else "gain")
        ending = f"; at the worse end of the {_percent(metrics)} interval a {what} of {shown}, {limit}"
    else:
        ending = f", {limit}" if is_gain or worst > 0 or slack < 0 else ""
    return _result(verdict, slack, f"{_subject(gate, metrics)} {value:.4f} {comparison}{ending}")


def _relation(slack: float, *, is_gain: bool) -> str:
    if is_gain:
        return "at least" if slack >= 0 else "less than"
    return "within" if slack >= 0 else "more than"


def _fail(gate: Gate, metrics: SliceMetrics, name: str, bound: float, reason: str) -> BoundResult:
    verdict = GateVerdict(
        kind="gain" if name == "min_gain" else "change",
        metric=gate.metric,
        slice=metrics.name,
        bound=bound,
        judge=gate.judge,
        value=None,
        passed=False,
        reason=reason,
    )
    return BoundResult(verdict, float("-inf"))


def _no_interval(gate: Gate, metrics: SliceMetrics, value: float) -> str:
    return (
        f"{_subject(gate, metrics)} {value:.4f} has no confidence interval, which the gate judges by: too few of the "
        "bootstrap's draws have a value"
    )


def _result(verdict: GateVerdict, slack: float, reason: str) -> BoundResult:
    return BoundResult(verdict.model_copy(update={"passed": slack >= 0, "reason": reason}), slack)


def _percent(metrics: SliceMetrics) -> str:
    return f"{100 * metrics.level:g} %"


def _shown(value: float, bound: float) -> tuple[str, str]:
    """Formats both with at least four digits, and as many as show that they differ and that the value is not 0."""
    for digits in (4, 6, 9, 12):
        shown, shown_bound = f"{value:.{digits}f}", f"{bound:.{digits}f}"
        if (shown != shown_bound or value == bound) and (float(shown) != 0 or value == 0):
            break
    return shown, shown_bound
