"""From a spec to TFMA's configuration: what is measured, on which slices, and which bounds decide."""

from collections.abc import Collection, Iterable, Sequence

import tensorflow_model_analysis as tfma
from google.protobuf import wrappers_pb2
from typing_extensions import assert_never

from components.evaluator import metrics
from components.evaluator.verdict import BASELINE, CANDIDATE
from schemas.release import AucGate, Evaluation, Gate, RmseGate
from schemas.spec import Inputs
from schemas.tasks import BinaryTask, RegressionTask, Task

SIGNATURE = "serving_default"


def eval_config(
    *, inputs: Inputs, evaluation: Evaluation, gates: Sequence[Gate], baseline_tasks: Collection[str] = ()
) -> tfma.EvalConfig:
    """Returns what TFMA is to compute and to check.

    Args:
        inputs: tasks and features.
        evaluation: the slices.
        gates: at most one per task; they bind the overall metrics only, never a slice.
        baseline_tasks: the tasks for which a blessed model is scored on the same examples; none without such a model.
    """
    return tfma.EvalConfig(
        model_specs=_model_specs(inputs, baseline_tasks),
        slicing_specs=[tfma.SlicingSpec()]
        + [tfma.SlicingSpec(feature_keys=keys) for keys in slice_columns(inputs, evaluation)],
        metrics_specs=[
            _metrics_spec(task, declared, _gate_of(task, gates), has_baseline=task in baseline_tasks)
            for task, declared in inputs.tasks.items()
        ],
    )


def slice_columns(inputs: Inputs, evaluation: Evaluation) -> list[list[str]]:
    """Returns the columns of each slice, once: TFMA sees the raw examples, where features go by their columns."""
    unique = dict.fromkeys(tuple(sorted({inputs.column_of(name) for name in names})) for names in evaluation.slices)
    return [list(columns) for columns in unique]


def _model_specs(inputs: Inputs, baseline_tasks: Collection[str]) -> Iterable[tfma.ModelSpec]:
    yield tfma.ModelSpec(
        # TFMA drops the name of an only model; written so, the config says what is run.
        name=CANDIDATE if baseline_tasks else "",
        signature_name=SIGNATURE,
        label_keys={task: inputs.label_of(task) for task in inputs.tasks},
    )
    if baseline_tasks:
        yield tfma.ModelSpec(
            name=BASELINE,
            is_baseline=True,
            signature_name=SIGNATURE,
            label_keys={task: inputs.label_of(task) for task in inputs.tasks if task in baseline_tasks},
        )


def _gate_of(task: str, gates: Sequence[Gate]) -> Gate | None:
    return next((gate for gate in gates if gate.task == task), None)


def _metrics_spec(task: str, declared: Task, gate: Gate | None, *, has_baseline: bool) -> tfma.MetricsSpec:
    match declared:
        case BinaryTask():
            metrics_class = metrics.BinaryMetrics
        case RegressionTask():
            metrics_class = metrics.RegressionMetrics
        case _:
            assert_never(declared)
    metric = tfma.MetricConfig(class_name=metrics_class.__name__, module=metrics.__name__)
    if gate is not None:
        metric.per_slice_thresholds.append(_overall(_threshold(gate, has_baseline=has_baseline)))
    names = [CANDIDATE, BASELINE] if has_baseline else [CANDIDATE]
    return tfma.MetricsSpec(model_names=names, output_names=[task], metrics=[metric])


def _overall(threshold: tfma.MetricThreshold) -> tfma.PerSliceMetricThreshold:
    # A plain `threshold` would bind every slice; an empty SlicingSpec means all examples together.
    return tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec()], threshold=threshold)


def _threshold(gate: Gate, *, has_baseline: bool) -> tfma.MetricThreshold:
    match gate:
        case AucGate():
            value = tfma.GenericValueThreshold(lower_bound=_double(gate.at_least))
            change, direction = gate.max_drop, tfma.MetricDirection.HIGHER_IS_BETTER
            absolute = -change if change is not None else None
        case RmseGate():
            value = tfma.GenericValueThreshold(upper_bound=_double(gate.at_most))
            absolute, direction = gate.max_rise, tfma.MetricDirection.LOWER_IS_BETTER
        case _:
            assert_never(gate)
    if absolute is None or not has_baseline:
        return tfma.MetricThreshold(value_threshold=value)
    return tfma.MetricThreshold(
        value_threshold=value,
        change_threshold=tfma.GenericChangeThreshold(absolute=_double(absolute), direction=direction),
    )


def _double(value: float) -> wrappers_pb2.DoubleValue:
    return wrappers_pb2.DoubleValue(value=value)
