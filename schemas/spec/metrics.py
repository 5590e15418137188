"""Metrics of a task, and names of slices: used by specs, evaluator and reports.

A metric covers the examples of the task (`only_where`, `missing_label`), each counting once. A task with an
`example_weight` also has `weighted_<metric>`, where each counts by its weight. Watch times count as numbers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, assert_never

from pydantic import AfterValidator

from sangam.schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask

Direction = Literal["higher", "lower", "target"]
"""Better values: higher, lower, or (`target`) nearer to 1; the gate of a target is a band."""

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
_NOT_WEIGHTED = ("gauc", "rank_correlation")
"""Metrics without a weighted form: groups have weights of their own, ranks have none; lists (metrics at k) neither."""
AT_K = ("ndcg", "recall", "hit_rate", "mrr")
"""Metrics over the first k examples of each list of `evaluation.list`."""
_AT_K = re.compile(rf"^({'|'.join(AT_K)})_at_([1-9]\d{{0,3}})$")
_NAMES_AT_K = [f"{name}_at_<k>" for name in AT_K]
_LARGEST = {"auc": 1.0, "pr_auc": 1.0, "calibration_error": 1.0, "gauc": 1.0, "rank_correlation": 1.0}


def metrics_of(task: Task) -> list[str]:
    """Returns the metrics that a task's gates can bound, those at k as `ndcg_at_<k>`."""
    names = [*_of(task), *_NAMES_AT_K] if isinstance(task, BinaryTask) else list(_of(task))
    return [*names, *_weighted(task)] if task.example_weight else names


def fits(metric: str, task: Task) -> bool:
    """Says whether a task has a metric."""
    if needs_weights(metric):
        return task.example_weight is not None and metric in _weighted(task)
    return metric in _of(task) or (isinstance(task, BinaryTask) and at_k(metric) is not None)


def _weighted(task: Task) -> list[str]:
    return [WEIGHTED + name for name in _of(task) if name not in _NOT_WEIGHTED]


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


def direction(metric: str) -> Direction:
    """Returns the direction of a metric's better values."""
    return "higher" if at_k(metric) else (_BINARY | _REGRESSION)[without_weights(metric)]


def is_count(metric: str) -> bool:
    """Says whether a value that is reported beside the metrics is a number of examples, groups or lists."""
    return metric.startswith("num_")


def largest(metric: str) -> float | None:
    """Returns the largest possible value of a metric, or None."""
    return 1.0 if at_k(metric) else _LARGEST.get(without_weights(metric))


def _known(metric: str) -> str:
    every = sorted(_BINARY | _REGRESSION)
    weighted = [WEIGHTED + name for name in every if name not in _NOT_WEIGHTED]
    if metric not in (*every, *weighted) and not at_k(metric):
        raise ValueError(f"one of: {', '.join([*every, *_NAMES_AT_K, *weighted])}")
    return metric


Metric = Annotated[str, AfterValidator(_known)]


def slice_name(values: Mapping[str, str | int] | Sequence[tuple[str, str | int]]) -> str:
    """Returns `tab=home,language=hi` for the values of a slice's features in their order; "" for all examples."""
    pairs = values.items() if isinstance(values, Mapping) else values
    return ",".join(f"{feature}={value}" for feature, value in pairs)


def new_id_slice(feature: str) -> str:
    """Returns the name of the slice of examples whose id of a feature has no row in the model."""
    return f"new {feature}"
