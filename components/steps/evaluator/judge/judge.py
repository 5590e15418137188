"""From what was measured to a verdict: every gate of every task, with its reason, and what was not judged.

Pure: TFMA measures, this decides.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.reports.evaluation import (
    CalibrationBucket,
    GateVerdict,
    Intervals,
    Metrics,
    TaskVerdict,
    Verdict,
)
from components.steps.evaluator.judge import bounds
from components.steps.evaluator.judge.bounds import Held, Place
from components.steps.evaluator.judge.reduced_rows import ReducedRows, rows_verdict
from components.steps.evaluator.metrics.measured import UNDEFINED, SliceResult, name_of
from components.steps.evaluator.metrics.measured import Metrics as MeasuredMetrics
from schemas.errors import UserError
from schemas.spec import Inputs
from schemas.spec.metrics import new_id_slice, slice_name
from schemas.spec.release import Evaluation, Gate

MAX_NAMED = 5
"""Slices that a note names one by one."""
MAX_FAILURES = 20
"""Slices of one gate that have a verdict of their own: those furthest from the bound."""


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


def judge(
    *,
    inputs: Inputs,
    evaluation: Evaluation,
    gates: Sequence[Gate],
    baseline: Baseline,
    measured: Mapping[str, SliceResult],
    rows: ReducedRows | None = None,
    told_ids: Collection[str] | None = None,
) -> Verdict:
    """Returns the verdict.

    Args:
        inputs: tasks and features.
        evaluation: the slices, how many examples one must have, and the level of the intervals.
        gates: any number per task.
        baseline: what the candidate was compared with.
        measured: by slice; the empty name is all examples.
        rows: what reduced rows cost; None for rows in full.
        told_ids: features of whose ids the candidate says whether they are new to it; None: of all.

    Raises:
        UserError: if not one example was evaluated.
    """
    overall = measured.get("")
    if overall is None:
        raise UserError("evaluation: not one example was evaluated (got 0); the eval split must hold rows")
    court = _Court(evaluation, baseline, measured, told_ids)
    gated = {gate.task for gate in gates}
    notes = [
        f"{task} has no gate: it was not judged, but for predictions that are finite numbers"
        for task in inputs.tasks
        if task not in gated
    ]
    tasks = {}
    for task in inputs.tasks:
        verdicts = [finite_verdict(overall.candidate[task])]
        verdicts += [rows_verdict(rows, task, inputs.tasks[task])] if rows else []
        for gate in (gate for gate in gates if gate.task == task):
            judged, unjudged = court.judge(gate)
            verdicts += judged
            notes += unjudged
        tasks[task] = _task_verdict(task, measured, verdicts)
    blessed = all(verdict.passed for task in tasks.values() for verdict in task.gates)
    return Verdict(blessed=blessed, baseline=baseline.uri, notes=notes, tasks=tasks)


def finite_verdict(metrics: MeasuredMetrics) -> GateVerdict:
    """Returns whether every prediction is a finite number: asked of every task, before all else."""
    share, count = (metrics.get(name, UNDEFINED).value for name in ("non_finite", "num_examples"))
    count = count or 0.0
    if share == 0:
        reason = f"all {count:.0f} predictions are finite numbers"
    elif share is None:
        reason = "no example takes part in the task: there is nothing to judge"
    else:
        reason = f"{share * count:.0f} of {count:.0f} predictions are NaN or infinite"
    return GateVerdict(kind="finite", metric="non_finite", bound=0.0, value=share, passed=share == 0, reason=reason)


@dataclass(frozen=True)
class _Court:
    evaluation: Evaluation
    baseline: Baseline
    measured: Mapping[str, SliceResult]
    told_ids: Collection[str] | None

    def judge(self, gate: Gate) -> tuple[list[GateVerdict], list[str]]:
        """Returns the gate's verdicts, and what of it was not judged."""
        places = [self._place(gate, name) for name in self._slices(gate)]
        judged: list[Place] = []
        few: list[Place] = []
        meaningless: list[Place] = []
        for place in places:
            if place.name and place.number("num_examples") < self.evaluation.min_slice_examples:
                few.append(place)
            elif place.name and place.of(gate.metric).value is None and bounds.owed_to_labels(gate.metric, place):
                meaningless.append(place)
            else:
                judged.append(place)
        notes = [*self._without_baseline(gate)] if judged else []
        if not places:
            notes.append(f"{_what(gate)} was not judged: {self._why_not_there(gate)}")
        minimum = f"fewer examples than min_slice_examples {self.evaluation.min_slice_examples}"
        notes += _unjudged(gate, few, minimum, lambda place: f"{place.number('num_examples'):.0f}")
        notes += _unjudged(gate, meaningless, "labels for which it means nothing", _labels)
        return _verdicts(gate, [held for place in judged for held in bounds.check(gate, place)]), notes

    def _place(self, gate: Gate, name: str) -> Place:
        result = self.measured[name]
        return Place(
            name=name,
            candidate=result.candidate[gate.task],
            baseline=result.baseline.get(gate.task) if gate.task in self.baseline.tasks else None,
            level=self.evaluation.confidence.level,
        )

    def _slices(self, gate: Gate) -> list[str]:
        """Returns the names of the measured slices that a gate judges."""
        if gate.each is not None:
            features = frozenset(gate.each)
            return sorted(name for name, result in self.measured.items() if result.features == features)
        if gate.slice is not None:
            name = name_of(self.evaluation, gate.slice)
        else:
            name = new_id_slice(gate.new_id) if gate.new_id is not None else ""
        return [name] if name in self.measured else []

    def _why_not_there(self, gate: Gate) -> str:
        if gate.new_id is not None and self.told_ids is not None and gate.new_id not in self.told_ids:
            return "the model does not say which ids it knows, having no signature known_ids"
        return f"no example is in {'such a' if gate.each else 'that'} slice"

    def _without_baseline(self, gate: Gate) -> Iterator[str]:
        if not gate.is_relative or gate.task in self.baseline.tasks:
            return
        problem = self.baseline.problem or f"the blessed model {self.baseline.uri} has no task '{gate.task}'"
        for name, bound in bounds.relative_bounds(gate):
            yield f"{problem}: {_what(gate)} {name} {bound:g} was not checked"


def _verdicts(gate: Gate, found: Sequence[Held]) -> list[GateVerdict]:
    """Returns the verdicts; of a gate on each of many slices, every failure and one for all those that hold."""
    if gate.each is None:
        return [held.verdict for held in found]
    verdicts = []
    for kind in dict.fromkeys((held.verdict.kind, held.verdict.bound) for held in found):
        alike = sorted(
            (held for held in found if (held.verdict.kind, held.verdict.bound) == kind), key=lambda held: held.slack
        )
        failed = [held.verdict for held in alike if not held.verdict.passed]
        passed = [held.verdict for held in alike if held.verdict.passed]
        verdicts += failed[:MAX_FAILURES]
        if len(failed) > MAX_FAILURES:
            reason = f"{len(failed) - MAX_FAILURES} more slices by {_features(gate)} do not hold either"
            verdicts.append(_for_all(gate, failed[MAX_FAILURES], reason))
        if len(passed) == 1:
            verdicts += passed
        elif passed:
            reason = f"{len(passed)} of {len(alike)} slices hold, the nearest to its bound: {passed[0].reason}"
            verdicts.append(_for_all(gate, passed[0], reason))
    return verdicts


def _for_all(gate: Gate, nearest: GateVerdict, reason: str) -> GateVerdict:
    return nearest.model_copy(update={"slice": f"each {_features(gate)}", "reason": reason})


def _unjudged(gate: Gate, places: Sequence[Place], having: str, detail: Callable[[Place], str]) -> Iterator[str]:
    if not places:
        return
    named = ", ".join(f"{place.name} ({detail(place)})" for place in places[:MAX_NAMED])
    more = f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
    yield f"{gate.task} {gate.metric} was not judged on slices with {having}: {named}{more}"


def _labels(place: Place) -> str:
    return f"{place.number('num_examples'):.0f} labels of mean {place.number('mean_label'):g}"


def _what(gate: Gate) -> str:
    if gate.slice is not None:
        where = f" of {slice_name(gate.slice)}"
    elif gate.each is not None:
        where = f" of each {_features(gate)}"
    else:
        where = f" of {new_id_slice(gate.new_id)}" if gate.new_id is not None else ""
    return f"{gate.task} {gate.metric}{where}"


def _features(gate: Gate) -> str:
    return ",".join(gate.each or ())


def _task_verdict(task: str, measured: Mapping[str, SliceResult], gates: list[GateVerdict]) -> TaskVerdict:
    of_slices = {name: result.candidate[task] for name, result in sorted(measured.items()) if name}
    return TaskVerdict(
        metrics=_values(measured[""].candidate[task]),
        intervals=_intervals(measured[""].candidate[task]),
        slices={name: _values(metrics) for name, metrics in of_slices.items()},
        slice_intervals={name: found for name, metrics in of_slices.items() if (found := _intervals(metrics))},
        calibration_buckets=[CalibrationBucket(**bucket) for bucket in measured[""].calibration_buckets.get(task, ())],
        gates=gates,
    )


def _values(metrics: MeasuredMetrics) -> Metrics:
    return {name: found.value for name, found in metrics.items()}


def _intervals(metrics: MeasuredMetrics) -> Intervals:
    return {
        name: (found.lower, found.upper)
        for name, found in metrics.items()
        if found.lower is not None and found.upper is not None
    }
