"""From TFMA's results to a verdict that people and later steps read: metrics, gates with a reason each, and notes.

TFMA decides. The sentences are derived from the same numbers, and a sentence that contradicts TFMA is an error.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from typing_extensions import assert_never

from schemas.errors import UserError
from schemas.release import AucGate, Evaluation, Gate, RmseGate
from schemas.spec import Inputs

FILE_NAME = "verdict.json"
CANDIDATE, BASELINE = "candidate", "baseline"
"""What TFMA calls the two models: tfma.CANDIDATE_KEY and BASELINE_KEY, without importing it."""
Metrics = dict[str, float | None]
"""Metric to value; None where it is undefined."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GateVerdict(_Record):
    """What one bound said.

    Attributes:
        kind: `value`: against the declared bound; `change`: against the last blessed model.
        metric: auc or rmse.
        bound: at_least or at_most; for a change max_drop or max_rise.
        value: the metric; for a change how much worse than the blessed model, negative when better.
        passed: as TFMA decided.
        reason: a sentence.
    """

    kind: Literal["value", "change"]
    metric: str
    bound: float
    value: float | None
    passed: bool
    reason: str


class TaskVerdict(_Record):
    """One task: metrics over all examples and by slice (`tab=home`), and its gates."""

    metrics: Metrics
    slices: dict[str, Metrics]
    gates: list[GateVerdict]


class Verdict(_Record):
    """Whether a model may be pushed, and why.

    Attributes:
        blessed: all gates of all tasks passed.
        baseline: uri of the blessed model that the candidate was compared with, if any.
        notes: what was not checked, and why.
        tasks: by name.
    """

    blessed: bool
    baseline: str | None
    notes: list[str]
    tasks: dict[str, TaskVerdict]


@dataclass(frozen=True)
class Baseline:
    """The blessed model to compare with.

    Attributes:
        uri: of the model; None if there is none that can be used.
        tasks: those that it scores.
        problem: why a task that it does not score has no baseline.
    """

    uri: str | None
    tasks: frozenset[str]
    problem: str


@dataclass(frozen=True)
class _Measured:
    candidate: dict[str, Metrics] = field(default_factory=dict)
    baseline: dict[str, Metrics] = field(default_factory=dict)
    change: dict[str, Metrics] = field(default_factory=dict)


def bound_of_change(gate: Gate) -> tuple[str, float] | None:
    """Returns the name and the bound of a gate's comparison with the blessed model, if it declares one."""
    match gate:
        case AucGate():
            return None if gate.max_drop is None else ("max_drop", gate.max_drop)
        case RmseGate():
            return None if gate.max_rise is None else ("max_rise", gate.max_rise)
        case _:
            assert_never(gate)


def judge(
    *,
    inputs: Inputs,
    evaluation: Evaluation,
    gates: Sequence[Gate],
    baseline: Baseline,
    metrics: Iterable[Any],
    validation: Any,
) -> Verdict:
    """Returns the verdict.

    Args:
        inputs: tasks and features.
        evaluation: the slices.
        gates: at most one per task.
        baseline: what the candidate was compared with.
        metrics: tfma's MetricsForSlice messages.
        validation: tfma's ValidationResult message.

    Raises:
        UserError: if not one example was evaluated.
        RuntimeError: if a reason contradicts TFMA's decision.
    """
    names = {inputs.column_of(name): name for slice_ in reversed(evaluation.slices) for name in reversed(slice_)}
    by_slice = {_slice_name(message.slice_key, names): _measured(message) for message in metrics}
    if "" not in by_slice:
        raise UserError("evaluation: not one example was evaluated (got 0); the eval split must hold rows")
    overall = by_slice.pop("")
    failed = {
        (failure.metric_key.output_name, failure.metric_key.is_diff)
        for validated in validation.metric_validations_per_slice
        for failure in validated.failures
    }
    tasks = {
        task: TaskVerdict(
            metrics=overall.candidate[task],
            slices={name: by_slice[name].candidate[task] for name in sorted(by_slice)},
            gates=[
                verdict
                for gate in gates
                if gate.task == task
                for verdict in _gate_verdicts(gate, overall, failed, has_baseline=task in baseline.tasks)
            ],
        )
        for task in inputs.tasks
    }
    blessed = all(gate.passed for task in tasks.values() for gate in task.gates)
    if blessed != validation.validation_ok:
        raise RuntimeError(f"verdict {blessed} contradicts TFMA's validation: {validation}")
    return Verdict(
        blessed=blessed, baseline=baseline.uri, notes=_notes(list(inputs.tasks), gates, baseline), tasks=tasks
    )


def _notes(tasks: Sequence[str], gates: Sequence[Gate], baseline: Baseline) -> list[str]:
    gated = {gate.task for gate in gates}
    notes = [f"{task} has no gate: it was not judged" for task in tasks if task not in gated]
    for gate in gates:
        change = bound_of_change(gate)
        if change is not None and gate.task not in baseline.tasks:
            problem = baseline.problem or f"the blessed model {baseline.uri} has no task '{gate.task}'"
            notes.append(f"{problem}: {gate.task} {gate.metric} {change[0]} {change[1]:g} was not checked")
    return notes


def _gate_verdicts(
    gate: Gate, measured: _Measured, failed: set[tuple[str, bool]], *, has_baseline: bool
) -> Iterable[GateVerdict]:
    candidate = measured.candidate[gate.task]
    yield _checked(_value_verdict(gate, candidate), gate.task, passed=(gate.task, False) not in failed)
    change = bound_of_change(gate)
    if change is None or not has_baseline:
        return
    difference = measured.change[gate.task].get(gate.metric)
    blessed = measured.baseline[gate.task].get(gate.metric)
    verdict = _change_verdict(gate, *change, candidate, blessed, difference)
    yield _checked(verdict, gate.task, passed=(gate.task, True) not in failed)


def _checked(verdict: GateVerdict, task: str, *, passed: bool) -> GateVerdict:
    if verdict.passed != passed:
        raise RuntimeError(f"task {task}: '{verdict.reason}' contradicts TFMA, which says passed={passed}")
    return verdict


def _value_verdict(gate: Gate, metrics: Metrics) -> GateVerdict:
    value = metrics.get(gate.metric)
    match gate:
        case AucGate():
            bound, passed = gate.at_least, value is not None and value >= gate.at_least
            relation = "at least" if passed else "below"
        case RmseGate():
            bound, passed = gate.at_most, value is not None and value <= gate.at_most
            relation = "at most" if passed else "above"
        case _:
            assert_never(gate)
    if value is None:
        reason = _undefined(gate.metric, metrics)
    else:
        shown, shown_bound = _shown(value, bound)
        reason = f"{gate.metric} {shown} is {relation} the bound {shown_bound}"
    return GateVerdict(kind="value", metric=gate.metric, bound=bound, value=value, passed=passed, reason=reason)


def _change_verdict(
    gate: Gate, name: str, bound: float, metrics: Metrics, blessed: float | None, difference: float | None
) -> GateVerdict:
    value = metrics.get(gate.metric)
    if value is None or blessed is None or difference is None:
        reason = (
            _undefined(gate.metric, metrics) if value is None else f"the blessed model's {gate.metric} is undefined"
        )
        return GateVerdict(kind="change", metric=gate.metric, bound=bound, value=None, passed=False, reason=reason)
    # 0.0 - x rather than -x, so that no change reads 0 and not -0.
    worse = 0.0 - difference if isinstance(gate, AucGate) else difference
    passed = worse <= bound
    shown, shown_bound = _shown(abs(worse), bound)
    if difference == 0:
        comparison = f"equals the blessed model's {blessed:.4f}"
    else:
        comparison = f"is {shown} {'below' if difference < 0 else 'above'} the blessed model's {blessed:.4f}"
    if not passed:
        comparison += f", more than {name} {shown_bound}"
    elif worse > 0:
        comparison += f", within {name} {shown_bound}"
    reason = f"{gate.metric} {value:.4f} {comparison}"
    return GateVerdict(kind="change", metric=gate.metric, bound=bound, value=worse, passed=passed, reason=reason)


def _undefined(metric: str, metrics: Metrics) -> str:
    mean, count = metrics.get("mean_label"), metrics.get("num_examples") or 0
    if metric == "auc" and mean in (0, 1):
        return f"auc is undefined: all {count:.0f} labels are {mean:.0f}"
    return f"{metric} is undefined: not all scores and labels of the {count:.0f} examples are finite numbers"


def _shown(value: float, bound: float) -> tuple[str, str]:
    """Returns both with as few digits, four at least, as show that they differ."""
    for digits in (4, 6, 9, 12):
        if f"{value:.{digits}f}" != f"{bound:.{digits}f}" or value == bound:
            break
    return f"{value:.{digits}f}", f"{bound:.{digits}f}"


def _slice_name(slice_key: Any, names: dict[str, str]) -> str:
    parts = []
    for single in slice_key.single_slice_keys:
        value = getattr(single, single.WhichOneof("kind"))
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        parts.append(f"{names[single.column]}={text}")
    return ",".join(parts)


def _measured(message: Any) -> _Measured:
    measured = _Measured()
    for entry in message.metric_keys_and_values:
        key, value = entry.key, entry.value.double_value.value
        if key.is_diff:
            side = measured.change
        else:
            side = measured.baseline if key.model_name == BASELINE else measured.candidate
        side.setdefault(key.output_name, {})[key.name] = value if math.isfinite(value) else None
    return measured
