"""The cost of smaller rows: the loss of AUC, or the rise of the error, on the evaluation split."""

import math
from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.export import TaskLoss
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import task_columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask
from sangam.trainer_module.serving.scores import Scores, evaluation_split
from sangam.trainer_module.transforms.columns import one_value

_ABSENT = -1
"""Stands for a missing integer, which is 0 or 1."""


def labels_of(job: TrainJob) -> Scores:
    """Returns the labels of the evaluation split, by task: NaN where an example takes no part in it."""
    spec = job.ranker
    columns = {column.name: column for task in spec.tasks for column in task_columns(spec, task)}
    absent = {name: _ABSENT if column.type == "int" else math.nan for name, column in columns.items()}
    parts = [
        {name: one_value(column, tf.constant(absent[name], column.dtype)).numpy() for name, column in batch.items()}
        for batch in evaluation_split(job, columns.values())
    ]
    values = {name: np.concatenate([part[name] for part in parts])[:, None] for name in columns}
    return {task: _labels(spec, task, values) for task in spec.tasks}


def _labels(spec: Inputs, task: str, values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    labels = values[spec.label_of(task)]
    counts = labels != _ABSENT if labels.dtype == np.int64 else ~np.isnan(labels)
    if where := spec.tasks[task].only_where:
        counts &= values[where] == 1
    return np.where(counts, labels, np.nan)


def reductions(spec: Inputs, labels: Scores, full: Scores, reduced: Scores) -> dict[str, TaskLoss]:
    """Returns each task's metric with float32 rows and with smaller ones, and the loss.

    A number is None where it is undefined: without positives, or without negatives.
    """
    results = {}
    for task, kind in spec.tasks.items():
        counts = ~np.isnan(labels[task])
        results[task] = _reduction(kind, labels[task][counts], full[task][counts], reduced[task][counts])
    return results


def _reduction(task: Task, labels: NDArray[Any], full: NDArray[Any], reduced: NDArray[Any]) -> TaskLoss:
    match task:
        case BinaryTask():
            before, after = auc(labels.ravel(), full.ravel()), auc(labels.ravel(), reduced.ravel())
            loss = None if before is None or after is None else before - after
            return TaskLoss(metric="auc", full=before, reduced=after, loss=loss)
        case RegressionTask() | WatchTimeTask():
            before, after = rmse(labels, full), rmse(labels, reduced)
            # Relative to an error of 0, any rise is infinite.
            loss = None if not before or after is None else after / before - 1.0
            return TaskLoss(metric="rmse", full=before, reduced=after, loss=loss)
        case _:
            assert_never(task)


def auc(labels: NDArray[Any], scores: NDArray[Any]) -> float | None:
    """Returns the share of pairs in which the positive scores higher, ties counting half; None without pairs."""
    is_positive = labels > 0
    positives = int(np.count_nonzero(is_positive))
    pairs = positives * (len(labels) - positives)
    if pairs == 0 or not np.isfinite(scores).all():
        return None
    _, rank_of_score, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2.0
    return float((mean_ranks[rank_of_score][is_positive].sum() - positives * (positives + 1) / 2.0) / pairs)


def rmse(labels: NDArray[Any], scores: NDArray[Any]) -> float | None:
    """Returns the root mean squared error, None where it is undefined."""
    if not len(labels):
        return None
    error = float(np.sqrt(np.mean(np.square(labels - scores, dtype=np.float64))))
    return error if np.isfinite(error) else None
