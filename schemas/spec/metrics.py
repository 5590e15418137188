"""Metrics of a task, and names of slices: used by specs, evaluator and reports.

A metric covers the examples of the task (`only_where`, `missing_label`), each counting once. A task with an
`example_weight` also has `weighted_<metric>`, where each counts by its weight. Watch times count as numbers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import assert_never

from sangam.schemas.parts.judging import Direction, Metric
from sangam.schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask

Declared = Mapping[str, Metric]
"""Metrics that a spec declares, by name."""

_BINARY: dict[str, Direction] = {
    "auc": "higher",
    "pr_auc": "higher",
    "log_loss": "lower",
    "normalized_entropy": "lower",
    "calibration": "target",
    "calibration_error": "lower",
    "gauc": "higher",
}
_REGRESSION: dict[str, Direction] = {
    "rmse": "lower",
    "mae": "lower",
    "rank_correlation": "higher",
    "calibration": "target",
}
WEIGHTED = "weighted_"
"""Prefix of metrics that count each example by its weight."""
UNCALIBRATED_METRIC = "uncalibrated_"
"""Prefix of metrics of a calibrated task before its calibration; reported, not bounded by gates."""
SUM_OF_WEIGHTS, WEIGHTED_MEAN_LABEL = "sum_of_weights", "weighted_mean_label"
"""Values reported beside the weighted metrics."""
_REPORTED = ("mean_label", "mean_prediction", "non_finite", SUM_OF_WEIGHTS, WEIGHTED_MEAN_LABEL)
"""Values beside the metrics that are no counts."""
_NOT_WEIGHTED = ("gauc", "rank_correlation")
"""Metrics without a weighted form: groups have weights of their own, ranks have none; lists (metrics at k) neither."""
AT_K = ("ndcg", "recall", "hit_rate", "mrr")
"""Metrics over the first k examples of each list of `evaluation.list`."""
_AT_K = re.compile(rf"^({'|'.join(AT_K)})_at_([1-9]\d{{0,3}})$")
_NAMES_AT_K = [f"{name}_at_<k>" for name in AT_K]
_LARGEST = {"auc": 1.0, "pr_auc": 1.0, "calibration_error": 1.0, "gauc": 1.0, "rank_correlation": 1.0}


def metrics_of(task: Task, declared: Declared) -> list[str]:
    """Returns the metrics that a task's gates can bound, those at k as `ndcg_at_<k>`."""
    names = [*_of(task), *_NAMES_AT_K] if isinstance(task, BinaryTask) else list(_of(task))
    names += declared_for(task, declared)
    return [*names, *_weighted(task, declared)] if task.example_weight else names


def declared_for(task: Task, declared: Declared) -> dict[str, Metric]:
    """Returns the declared metrics that a task has."""
    return {name: metric for name, metric in declared.items() if task.kind in metric.task_kinds}


def fits(metric: str, task: Task, declared: Declared) -> bool:
    """Says whether a task has a metric."""
    if needs_weights(metric):
        return task.example_weight is not None and metric in _weighted(task, declared)
    of_task = (*_of(task), *declared_for(task, declared))
    return metric in of_task or (isinstance(task, BinaryTask) and at_k(metric) is not None)


def _weighted(task: Task, declared: Declared) -> list[str]:
    names = (*_of(task), *declared_for(task, declared))
    return [WEIGHTED + name for name in names if name not in _NOT_WEIGHTED]


def needs_weights(metric: str) -> bool:
    """Says whether a metric counts each example by its weight."""
    return metric.startswith(WEIGHTED)


def without_weights(metric: str) -> str:
    """Returns the metric that counts each example once."""
    return metric.removeprefix(WEIGHTED)


def _of(task: Task) -> dict[str, Direction]:
    match task:
        case BinaryTask():
            return _BINARY
        case RegressionTask() | WatchTimeTask():
            return _REGRESSION
        case _:
            assert_never(task)


def at_k(metric: str) -> tuple[str, int] | None:
    """Returns name and k of `ndcg_at_5`, None for a metric without k."""
    match = _AT_K.match(metric)
    return (match[1], int(match[2])) if match else None


def direction(metric: str, declared: Mapping[str, Direction]) -> Direction:
    """Returns the direction of a metric's better values, given those of declared metrics."""
    plain = without_weights(metric)
    return "higher" if at_k(metric) else (_BINARY | _REGRESSION | dict(declared))[plain]


def is_count(metric: str) -> bool:
    """Says whether a value that is reported beside the metrics is a number of examples, groups or lists."""
    return metric.startswith("num_")


def largest(metric: str, declared: Declared) -> float | None:
    """Returns the largest possible value of a metric, or None."""
    plain = without_weights(metric)
    if plain in declared:
        return declared[plain].largest
    return 1.0 if at_k(metric) else _LARGEST.get(plain)


def known_metrics(declared: Declared) -> list[str]:
    """Returns the names of all metrics, those at k as `ndcg_at_<k>`."""
    every = sorted({*_BINARY, *_REGRESSION, *declared})
    return [*every, *_NAMES_AT_K, *(WEIGHTED + name for name in every if name not in _NOT_WEIGHTED)]


def is_known(metric: str, declared: Declared) -> bool:
    """Says whether a metric has this name."""
    return metric in known_metrics(declared) or at_k(metric) is not None


def is_taken(name: str) -> bool:
    """Says whether reports have another value under the name of a metric."""
    prefixes = (WEIGHTED, UNCALIBRATED_METRIC)
    return name in _REPORTED or is_count(name) or name.startswith(prefixes) or is_known(name, {})


def slice_name(values: Mapping[str, str | int] | Sequence[tuple[str, str | int]]) -> str:
    """Returns `tab=home,language=hi` for the values of a slice's features in their order; "" for all examples."""
    pairs = values.items() if isinstance(values, Mapping) else values
    return ",".join(f"{feature}={value}" for feature, value in pairs)


def new_id_slice(feature: str) -> str:
    """Returns the name of the slice of examples whose id of a feature has no row in the model."""
    return f"new {feature}"
