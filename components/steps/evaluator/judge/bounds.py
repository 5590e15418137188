"""One gate in one place: whether each of its bounds holds, and the sentence that says so."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from components.reports.evaluation import GateVerdict
from components.steps.evaluator.metrics.measured import UNDEFINED, Measured, paired_change
from schemas.spec.metrics import SUM_OF_WEIGHTS, WEIGHTED_MEAN_LABEL, at_k, direction, needs_weights, without_weights
from schemas.spec.release import Gate

_OF_REGRESSION_ALONE = ("rmse", "mae", "rank_correlation")


@dataclass(frozen=True)
class Place:
    """Where a gate is judged.

    Attributes:
        name: of the slice; empty: all examples.
        candidate: the task's metrics here.
        baseline: those of the blessed model on the same examples; None if there is nothing to compare with.
        level: of the confidence intervals.
    """

    name: str
    candidate: Mapping[str, Measured]
    baseline: Mapping[str, Measured] | None
    level: float

    def of(self, metric: str) -> Measured:
        """Returns a metric of the candidate."""
        return self.candidate.get(metric, UNDEFINED)

    def number(self, metric: str) -> float:
        """Returns a count, 0 where it is not there."""
        return self.of(metric).value or 0.0


@dataclass(frozen=True)
class Held:
    """A bound's verdict, and by how much it holds: negative where it does not."""

    verdict: GateVerdict
    slack: float


def check(gate: Gate, place: Place) -> Iterator[Held]:
    """Yields a verdict for the bound or band of a gate, and for each of its bounds on change that can be checked."""
    found = place.of(gate.metric)
    if gate.at_least is not None or gate.at_most is not None:
        yield _value(gate, place, found)
    if place.baseline is None or not gate.is_relative:
        return
    blessed = place.baseline.get(gate.metric, UNDEFINED)
    for name, bound in relative_bounds(gate):
        if found.value is None:
            yield _fail(gate, place, name, bound, undefined(gate.metric, place))
        elif blessed.value is None:
            yield _fail(gate, place, name, bound, f"the blessed model's {_noun(gate, place)} is undefined")
        else:
            yield _relative(gate, place, name, bound, found.value, blessed.value, _better(gate, place, found, blessed))


def relative_bounds(gate: Gate) -> list[tuple[str, float]]:
    """Returns name and value of each bound on the change against the blessed model."""
    bounds = (("max_drop", gate.max_drop), ("max_rise", gate.max_rise), ("min_gain", gate.min_gain))
    return [(name, bound) for name, bound in bounds if bound is not None]


def owed_to_labels(metric: str, place: Place) -> bool:
    """Says whether an undefined metric means nothing for these labels, whatever a model predicts."""
    return place.number("non_finite") == 0 and _without_contrast(metric, place) is not None


def undefined(metric: str, place: Place) -> str:
    """Returns why a metric has no value."""
    count, bad = place.number("num_examples"), place.number("non_finite")
    if bad > 0:
        why = f"{bad * count:.0f} of {count:.0f} predictions are no finite numbers"
    else:
        why = _without_contrast(metric, place) or (
            f"not all scores and labels of the {count:.0f} examples are finite numbers that differ"
        )
    return f"{f'{metric} of {place.name}' if place.name else metric} is undefined: {why}"


def _without_contrast(metric: str, place: Place) -> str | None:
    """Returns what the labels lack for a metric to mean something."""
    if place.of("num_examples").value == 0:
        return "no example takes part in the task"
    if metric == "gauc" and place.of("num_groups").value == 0:
        return "no group has labels of both classes"
    if at_k(metric) and place.of("num_lists").value == 0:
        return "no list has a positive label"
    if needs_weights(metric) and place.of(SUM_OF_WEIGHTS).value == 0:
        return f"the weights of all {place.number('num_examples'):.0f} examples are 0"
    mean = place.of("mean_label").value
    if without_weights(metric) in _OF_REGRESSION_ALONE:
        return None
    if mean in (0, 1):
        return f"all {place.number('num_examples'):.0f} labels are {mean:.0f}"
    if needs_weights(metric) and (mean := place.of(WEIGHTED_MEAN_LABEL).value) in (0, 1):
        return f"the labels of all examples with a weight over 0 are {mean:.0f}"
    return None


def _noun(gate: Gate, place: Place) -> str:
    return f"{gate.metric} of {place.name}" if place.name else gate.metric


def _value(gate: Gate, place: Place, found: Measured) -> Held:
    verdict = GateVerdict(
        kind="value",
        metric=gate.metric,
        slice=place.name,
        bound=_lower_bound(gate),
        upper_bound=gate.at_most if gate.at_least is not None else None,
        judge=gate.judge,
        value=found.value,
        lower=found.lower,
        upper=found.upper,
        passed=False,
        reason="",
    )
    if found.value is None:
        return _held(verdict, float("-inf"), undefined(gate.metric, place))
    low, high = (found.lower, found.upper) if gate.judge == "bound" else (found.value, found.value)
    if low is None or high is None:
        return _held(verdict, float("-inf"), _no_interval(gate, place, found.value))
    ends = []
    if gate.at_least is not None:
        ends.append((low - gate.at_least, "lower", low, gate.at_least))
    if gate.at_most is not None:
        ends.append((gate.at_most - high, "upper", high, gate.at_most))
    slack, end, value, bound = min(ends)
    shown, shown_bound = _shown(value, bound)
    if gate.judge == "bound":
        subject = f"the {end} end {shown} of the {_percent(place)} interval of {_noun(gate, place)} {found.value:.4f}"
    else:
        subject = f"{_noun(gate, place)} {shown}"
    beyond = "below" if end == "lower" else "above"
    if gate.at_least is not None and gate.at_most is not None:
        relation = f"{'within' if slack >= 0 else beyond} the band {gate.at_least:.4f} to {gate.at_most:.4f}"
    elif slack >= 0:
        relation = f"{'at least' if end == 'lower' else 'at most'} the bound {shown_bound}"
    else:
        relation = f"{beyond} the bound {shown_bound}"
    return _held(verdict, slack, f"{subject} is {relation}")


def _lower_bound(gate: Gate) -> float:
    bound = gate.at_least if gate.at_least is not None else gate.at_most
    if bound is None:
        raise ValueError(f"gate without a bound on the metric itself: {gate}")
    return bound


def _better(gate: Gate, place: Place, found: Measured, blessed: Measured) -> Measured:
    """Returns by how much the candidate is better than the blessed model, with the paired difference's interval."""
    change = paired_change(found, blessed, place.level)
    return change if direction(gate.metric) == "higher" else _negated(change)


def _negated(change: Measured) -> Measured:
    # 0.0 - x rather than -x, so that no change reads 0 and not -0.
    value, lower, upper = (None if end is None else 0.0 - end for end in (change.value, change.upper, change.lower))
    return Measured(value=value, lower=lower, upper=upper)


def _relative(
    gate: Gate, place: Place, name: str, bound: float, value: float, blessed: float, better: Measured
) -> Held:
    is_gain = name == "min_gain"
    counted = better if is_gain else _negated(better)
    verdict = GateVerdict(
        kind="gain" if is_gain else "change",
        metric=gate.metric,
        slice=place.name,
        bound=bound,
        judge=gate.judge,
        value=counted.value,
        lower=counted.lower,
        upper=counted.upper,
        passed=False,
        reason="",
    )
    if counted.value is None:
        return _held(verdict, float("-inf"), f"the change of {_noun(gate, place)} is undefined")
    worst = (counted.lower if is_gain else counted.upper) if gate.judge == "bound" else counted.value
    if worst is None:
        return _held(verdict, float("-inf"), _no_interval(gate, place, value))
    slack = worst - bound if is_gain else bound - worst
    shown, shown_bound = _shown(abs(worst), bound)
    difference = abs(value - blessed)
    change = shown if gate.judge == "point" else _shown(difference, bound)[0]
    if difference == 0:
        comparison = f"equals the blessed model's {blessed:.4f}"
    else:
        comparison = f"is {change} {'below' if value < blessed else 'above'} the blessed model's {blessed:.4f}"
    limit = f"{_relation(slack, is_gain=is_gain)} {name} {shown_bound}"
    if gate.judge == "bound":
        what = ("gain" if worst >= 0 else "loss") if is_gain else ("loss" if worst >= 0 else "gain")
        ending = f"; at the worse end of the {_percent(place)} interval a {what} of {shown}, {limit}"
    else:
        ending = f", {limit}" if is_gain or worst > 0 or slack < 0 else ""
    return _held(verdict, slack, f"{_noun(gate, place)} {value:.4f} {comparison}{ending}")


def _relation(slack: float, *, is_gain: bool) -> str:
    if is_gain:
        return "at least" if slack >= 0 else "less than"
    return "within" if slack >= 0 else "more than"


def _fail(gate: Gate, place: Place, name: str, bound: float, reason: str) -> Held:
    verdict = GateVerdict(
        kind="gain" if name == "min_gain" else "change",
        metric=gate.metric,
        slice=place.name,
        bound=bound,
        judge=gate.judge,
        value=None,
        passed=False,
        reason=reason,
    )
    return Held(verdict, float("-inf"))


def _no_interval(gate: Gate, place: Place, value: float) -> str:
    return (
        f"{_noun(gate, place)} {value:.4f} has no confidence interval, which the gate judges by: too few of the "
        "bootstrap's draws have a value"
    )


def _held(verdict: GateVerdict, slack: float, reason: str) -> Held:
    return Held(verdict.model_copy(update={"passed": slack >= 0, "reason": reason}), slack)


def _percent(place: Place) -> str:
    return f"{100 * place.level:g} %"


def _shown(value: float, bound: float) -> tuple[str, str]:
    """Returns both with as few digits, four at least, as show that they differ, and that the value is not 0."""
    for digits in (4, 6, 9, 12):
        shown, shown_bound = f"{value:.{digits}f}", f"{bound:.{digits}f}"
        if (shown != shown_bound or value == bound) and (float(shown) != 0 or value == 0):
            break
    return shown, shown_bound
