"""Decides on measured metrics: a verdict with a reason for every gate of every task, and notes on omissions.

Pure functions: Beam measures, this module decides.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sangam.components.examples.leaks import NEARLY_ALONE
from sangam.components.reports.evaluation import (
    CalibrationBucket,
    Difference,
    GateVerdict,
    Intervals,
    Metrics,
    TaskVerdict,
    Verdict,
)
from sangam.components.steps.evaluator.judge import bounds
from sangam.components.steps.evaluator.judge.bounds import BoundResult, SliceMetrics
from sangam.components.steps.evaluator.judge.leaks import Leak
from sangam.components.steps.evaluator.judge.notes import calibration_notes, new_id_notes
from sangam.components.steps.evaluator.judge.reduced_rows import ReducedRows, rows_verdict
from sangam.components.steps.evaluator.judge.warnings import warnings_of
from sangam.components.steps.evaluator.metrics.measured import UNDEFINED, SliceResult, name_of, paired_change
from sangam.components.steps.evaluator.metrics.measured import Metrics as MeasuredMetrics
from sangam.schemas.contracts.export import known_ids_of
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.metrics import declared_for, fits, new_id_slice, slice_name
from sangam.schemas.spec.release import Evaluation, Gate
from sangam.schemas.spec.tasks import Task

MAX_NAMED = 5
"""Slices that a note lists by name."""
MAX_FAILURES = 20
"""Failed slices of one gate that get a verdict each: those furthest from the bound."""


@dataclass(frozen=True)
class Baseline:
    """The blessed model to compare with.

    Attributes:
        uri: address of the model; None if no usable model exists.
        tasks: tasks that it scores.
        problem: reason why the other tasks have no baseline.
    """

    uri: str | None
    tasks: frozenset[str]
    problem: str


def judge(
    *,
    inputs: Inputs,
    evaluation: Evaluation,
    gates: Sequence[Gate],
    baseline: Baseline,
    measured: Mapping[str, SliceResult],
    rows: ReducedRows | None = None,
    known_id_features: Collection[str] | None = None,
    leaks: Mapping[str, Sequence[Leak]] | None = None,
) -> Verdict:
    """Returns the verdict.

    Args:
        inputs: tasks and features.
        evaluation: slices, their minimum of examples, and the level of the intervals.
        gates: any number per task.
        baseline: the model that the candidate was compared with.
        measured: measured values by slice; the empty name is all examples.
        rows: measured loss of reduced rows; None for full rows.
        known_id_features: features whose known ids the candidate reports; None: all.
        leaks: results that are too good, by task.

    Raises:
        UserError: if no example was evaluated.
    """
    overall = measured.get("")
    if overall is None:
        raise UserError("evaluation: no example was evaluated (got 0); the eval split must contain rows")
    evaluator = GateEvaluator(evaluation, baseline, measured, known_id_features)
    gated = {gate.task for gate in gates}
    notes = [
        f"{task} has no gate: only the finiteness of its predictions was checked"
        for task in inputs.tasks
        if task not in gated
    ]
    tasks = {}
    for task in inputs.tasks:
        verdicts = [finite_verdict(overall.candidate[task])]
        verdicts += [rows_verdict(rows, task, inputs.tasks[task])] if rows else []
        too_good = (leaks or {}).get(task, ())
        if evaluation.leaks == "refuse":
            verdicts += map(_leak_verdict, too_good)
        else:
            notes += [leak.reason for leak in too_good]
        for gate in (gate for gate in gates if gate.task == task):
            judged, unjudged = evaluator.judge(gate)
            verdicts += judged
            notes += unjudged
        tasks[task] = _task_verdict(task, inputs.tasks[task], measured, verdicts, evaluation)
    blessed = all(verdict.passed for task in tasks.values() for verdict in task.gates)
    warnings = [
        told for task, judged in tasks.items() for told in warnings_of(task, inputs, evaluation, measured, judged)
    ]
    for task, verdict in tasks.items():
        notes += calibration_notes(task, inputs.tasks[task], measured, verdict)
    notes += new_id_notes(inputs.features, measured, evaluation.min_slice_examples)
    return Verdict(blessed=blessed, baseline=baseline.uri, notes=notes, warnings=warnings, tasks=tasks)


def finite_verdict(metrics: MeasuredMetrics) -> GateVerdict:
    """Returns the first verdict on every task: whether all predictions are finite numbers."""
    share, count = (metrics.get(name, UNDEFINED).value for name in ("non_finite", "num_examples"))
    count = count or 0.0
    if share == 0:
        reason = f"all {count:,.0f} predictions are finite numbers"
    elif share is None:
        reason = "no example takes part in the task: there is nothing to judge"
    else:
        reason = f"{share * count:,.0f} of {count:,.0f} predictions are NaN or infinite"
    return GateVerdict(kind="finite", metric="non_finite", bound=0.0, value=share, passed=share == 0, reason=reason)


def _leak_verdict(leak: Leak) -> GateVerdict:
    return GateVerdict(kind="leak", metric="auc", bound=NEARLY_ALONE, value=leak.auc, passed=False, reason=leak.reason)


@dataclass(frozen=True)
class GateEvaluator:
    """Judges gates, one at a time, on the measured slices."""

    evaluation: Evaluation
    baseline: Baseline
    measured: Mapping[str, SliceResult]
    known_id_features: Collection[str] | None

    def judge(self, gate: Gate) -> tuple[list[GateVerdict], list[str]]:
        """Returns the gate's verdicts, and notes on omissions."""
        slices = [self._metrics(gate, name) for name in self._slices(gate)]
        judged: list[SliceMetrics] = []
        small: list[SliceMetrics] = []
        undefined: list[SliceMetrics] = []
        for metrics in slices:
            if metrics.name and metrics.number("num_examples") < self.evaluation.min_slice_examples:
                small.append(metrics)
            elif metrics.name and bounds.is_undefined_by_labels(gate.metric, metrics):
                undefined.append(metrics)
            else:
                judged.append(metrics)
        notes = [*self._without_baseline(gate)] if judged else []
        if not slices:
            notes.append(f"{_what(gate)} was not judged: {self._why_missing(gate)}")
        minimum = f"fewer examples than min_slice_examples {self.evaluation.min_slice_examples}"
        notes += _unjudged(gate, small, minimum, lambda metrics: f"{metrics.number('num_examples'):,.0f}")
        notes += _unjudged(gate, undefined, "labels for which it means nothing", _labels)
        return _verdicts(gate, [result for metrics in judged for result in bounds.check(gate, metrics)]), notes

    def _metrics(self, gate: Gate, name: str) -> SliceMetrics:
        measured = self.measured[name]
        return SliceMetrics(
            name=name,
            candidate=measured.candidate[gate.task],
            baseline=measured.baseline.get(gate.task) if gate.task in self.baseline.tasks else None,
            level=self.evaluation.confidence.level,
            directions=self.evaluation.directions,
        )

    def _slices(self, gate: Gate) -> list[str]:
        """Returns the names of the gate's measured slices."""
        if gate.each is not None:
            features = frozenset(gate.each)
            return sorted(name for name, result in self.measured.items() if result.features == features)
        if gate.slice is not None:
            name = name_of(self.evaluation, gate.slice)
        else:
            name = new_id_slice(gate.new_id) if gate.new_id is not None else ""
        return [name] if name in self.measured else []

    def _why_missing(self, gate: Gate) -> str:
        if gate.new_id is not None and self.known_id_features is not None and gate.new_id not in self.known_id_features:
            return f"the model has no output {known_ids_of(gate.new_id)}"
        return f"no example is in {'such a' if gate.each else 'that'} slice"

    def _without_baseline(self, gate: Gate) -> Iterator[str]:
        if not gate.is_relative or gate.task in self.baseline.tasks:
            return
        problem = self.baseline.problem or f"the blessed model {self.baseline.uri} has no task '{gate.task}'"
        for name, bound in bounds.relative_bounds(gate):
            yield f"{problem}: {_what(gate)} {name} {bound:g} was not checked"


def _verdicts(gate: Gate, results: Sequence[BoundResult]) -> list[GateVerdict]:
    """Returns the verdicts; for a gate on each of many slices, the failures, and one verdict for all that hold."""
    if gate.each is None:
        return [result.verdict for result in results]
    verdicts = []
    for kind in dict.fromkeys((result.verdict.kind, result.verdict.bound) for result in results):
        same_bound = sorted(
            (result for result in results if (result.verdict.kind, result.verdict.bound) == kind),
            key=lambda result: result.slack,
        )
        failed = [result.verdict for result in same_bound if not result.verdict.passed]
        passed = [result.verdict for result in same_bound if result.verdict.passed]
        verdicts += failed[:MAX_FAILURES]
        if len(failed) > MAX_FAILURES:
            reason = f"{len(failed) - MAX_FAILURES} more slices by {_features(gate)} do not hold either"
            verdicts.append(_for_all(gate, failed[MAX_FAILURES], reason))
        if len(passed) == 1:
            verdicts += passed
        elif passed:
            reason = f"{len(passed)} of {len(same_bound)} slices hold, the nearest to its bound: {passed[0].reason}"
            verdicts.append(_for_all(gate, passed[0], reason))
    return verdicts


def _for_all(gate: Gate, nearest: GateVerdict, reason: str) -> GateVerdict:
    return nearest.model_copy(update={"slice": f"each {_features(gate)}", "reason": reason})


def _unjudged(
    gate: Gate, slices: Sequence[SliceMetrics], having: str, detail: Callable[[SliceMetrics], str]
) -> Iterator[str]:
    if not slices:
        return
    named = ", ".join(f"{metrics.name} ({detail(metrics)})" for metrics in slices[:MAX_NAMED])
    more = f" and {len(slices) - MAX_NAMED} more" if len(slices) > MAX_NAMED else ""
    yield f"{gate.task} {gate.metric} was not judged on slices with {having}: {named}{more}"


def _labels(metrics: SliceMetrics) -> str:
    return f"{metrics.number('num_examples'):,.0f} labels of mean {metrics.number('mean_label'):g}"


def _what(gate: Gate) -> str:
    if gate.slice is not None:
        of_slice = f" of {slice_name(gate.slice)}"
    elif gate.each is not None:
        of_slice = f" of each {_features(gate)}"
    else:
        of_slice = f" of {new_id_slice(gate.new_id)}" if gate.new_id is not None else ""
    return f"{gate.task} {gate.metric}{of_slice}"


def _features(gate: Gate) -> str:
    return ",".join(gate.each or ())


def _task_verdict(
    name: str, task: Task, measured: Mapping[str, SliceResult], gates: list[GateVerdict], evaluation: Evaluation
) -> TaskVerdict:
    by_slice = {place: result.candidate[name] for place, result in sorted(measured.items()) if place}
    own, every = measured[""].candidate[name], measured[""].baseline.get(name, {})
    last = {metric: each for metric, each in every.items() if fits(metric, task, evaluation.metrics)}
    return TaskVerdict(
        metrics=_values(own),
        intervals=_intervals(own),
        baseline=_values(last),
        differences=_differences(own, last, evaluation.confidence.level),
        slices={place: _values(metrics) for place, metrics in by_slice.items()},
        slice_intervals={place: intervals for place, metrics in by_slice.items() if (intervals := _intervals(metrics))},
        calibration_buckets=[CalibrationBucket(**bucket) for bucket in measured[""].calibration_buckets.get(name, ())],
        gates=gates,
        directions={name: metric.direction for name, metric in declared_for(task, evaluation.metrics).items()},
    )


def _differences(own: MeasuredMetrics, last: MeasuredMetrics, level: float) -> dict[str, Difference]:
    changes = {metric: paired_change(own.get(metric, UNDEFINED), each, level) for metric, each in last.items()}
    return {
        metric: Difference(value=change.value, lower=change.lower, upper=change.upper)
        for metric, change in changes.items()
        if change.value is not None
    }


def _values(metrics: MeasuredMetrics) -> Metrics:
    return {name: measured.value for name, measured in metrics.items()}


def _intervals(metrics: MeasuredMetrics) -> Intervals:
    return {
        name: (measured.lower, measured.upper)
        for name, measured in metrics.items()
        if measured.lower is not None and measured.upper is not None
    }
