"""Builds TFMA's configuration from a spec: which metrics, of which models, on which slices.

Slices are named by features and keys, not by columns. TFMA gets no thresholds: `judge` decides.
"""

import json
from collections.abc import Collection, Iterable, Sequence

import tensorflow_model_analysis as tfma
from typing_extensions import assert_never

from components.steps.evaluator.metrics import tfma_metrics as metrics
from components.steps.evaluator.metrics.measured import BASELINE, CANDIDATE
from components.steps.evaluator.metrics.settings import Settings, new_id_features, settings_of, slices_of
from schemas.contracts.export import SERVE
from schemas.spec import Inputs
from schemas.spec.metrics import new_id_slice
from schemas.spec.release import Evaluation, Gate
from schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask


def eval_config(
    *, inputs: Inputs, evaluation: Evaluation, gates: Sequence[Gate], baseline_tasks: Collection[str] = ()
) -> tfma.EvalConfig:
    """Returns the configuration of a run of TFMA.

    Args:
        inputs: tasks, features and keys.
        evaluation: slices, groups and intervals.
        gates: their slices are measured too.
        baseline_tasks: tasks that the baseline scores on the same examples; empty without a baseline.
    """
    settings = settings_of(inputs, evaluation, gates)
    return tfma.EvalConfig(
        model_specs=_model_specs(inputs, baseline_tasks),
        slicing_specs=list(_slicing_specs(inputs, evaluation, gates)),
        metrics_specs=[
            _metrics_spec(name, task, settings, has_baseline=name in baseline_tasks)
            for name, task in inputs.tasks.items()
        ],
    )


def _slicing_specs(inputs: Inputs, evaluation: Evaluation, gates: Sequence[Gate]) -> Iterable[tfma.SlicingSpec]:
    yield tfma.SlicingSpec()
    for slice_ in slices_of(evaluation, gates):
        yield tfma.SlicingSpec(
            feature_keys=[name for name, value in slice_ if value is None],
            feature_values={name: str(value) for name, value in slice_ if value is not None},
        )
    for feature in new_id_features(inputs, evaluation):
        yield tfma.SlicingSpec(feature_keys=[new_id_slice(feature)])


def _model_specs(inputs: Inputs, baseline_tasks: Collection[str]) -> Iterable[tfma.ModelSpec]:
    yield _model_spec(
        # TFMA drops the name of a single model; so does this, and the config shows what is run.
        CANDIDATE if baseline_tasks else "",
        inputs,
        list(inputs.tasks),
    )
    if baseline_tasks:
        spec = _model_spec(BASELINE, inputs, [task for task in inputs.tasks if task in baseline_tasks])
        spec.is_baseline = True
        yield spec


def _model_spec(name: str, inputs: Inputs, tasks: list[str]) -> tfma.ModelSpec:
    return tfma.ModelSpec(
        name=name,
        # Without it TFMA would load the whole model as a Keras model to find out.
        model_type=tfma.TF_GENERIC,
        signature_name=SERVE,
        label_keys={task: inputs.label_of(task) for task in tasks},
    )


def _metrics_spec(name: str, task: Task, settings: Settings, *, has_baseline: bool) -> tfma.MetricsSpec:
    match task:
        case BinaryTask():
            metrics_class = metrics.BinaryMetrics
        case RegressionTask() | WatchTimeTask():
            metrics_class = metrics.RegressionMetrics
        case _:
            assert_never(task)
    metric = tfma.MetricConfig(
        class_name=metrics_class.__name__,
        module=metrics.__name__,
        config=json.dumps({"settings": settings.document()}, sort_keys=True),
    )
    models = [CANDIDATE, BASELINE] if has_baseline else [CANDIDATE]
    return tfma.MetricsSpec(model_names=models, output_names=[name], metrics=[metric])
