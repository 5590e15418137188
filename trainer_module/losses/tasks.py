"""All tasks of a batch: their losses with masks and weights, and what their logits predict."""

import math
from collections.abc import Sequence

import tensorflow as tf
from typing_extensions import assert_never

from schemas.spec import RankerSpec
from schemas.spec.models import Aitm, Esmm
from schemas.spec.tasks import BinaryTask, LogError, RegressionTask, Task, WatchTimeTask
from trainer_module.losses.examples import example_losses

# Shape suffixes: B batch, T tasks.


def loss_sums(
    declared: RankerSpec,
    tasks: Sequence[str],
    logits_BT: tf.Tensor,
    labels_BT: tf.Tensor,
    weights_BT: tf.Tensor | None = None,
    auxiliary_B: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns each task's loss, summed over the batch: [tasks].

    An example without a label of a task (NaN) adds nothing to its sum, nor to its gradient. It counts all the same in
    the number of examples by which the trainer divides: a task on a tenth of the examples has a tenth of the say.

    Args:
        declared: of the model.
        tasks: names, in the order of the logits.
        logits_BT: [batch, tasks].
        labels_BT: [batch, tasks], NaN where a task is masked.
        weights_BT: [batch, tasks], of examples; read for tasks that declare an `example_weight`.
        auxiliary_B: [batch], a loss of the model itself; counts as the last task's of its chain.
    """
    labels = dict(zip(tasks, tf.unstack(labels_BT, len(tasks), axis=1), strict=True))
    weights = (
        dict(zip(tasks, tf.unstack(weights_BT, len(tasks), axis=1), strict=True)) if weights_BT is not None else {}
    )
    sums = []
    for task, logits_B in zip(tasks, tf.unstack(logits_BT, len(tasks), axis=1), strict=True):
        has_label_B = ~tf.math.is_nan(labels[task])
        # Chosen before the loss and after it: the gradient of a NaN that is left out only afterwards is NaN.
        losses_B = example_losses(declared.tasks[task], logits_B, tf.where(has_label_B, labels[task], 0.0))
        for factor_B in _factors(declared, task, labels, weights):
            losses_B *= tf.where(has_label_B, factor_B, 0.0)
        losses_B = tf.where(has_label_B, losses_B, 0.0)
        if auxiliary_B is not None and task == _last_of_chain(declared):
            losses_B += auxiliary_B
        sums.append(tf.reduce_sum(losses_B))
    return tf.stack(sums)


def _factors(
    declared: RankerSpec, task: str, labels: dict[str, tf.Tensor], weights: dict[str, tf.Tensor]
) -> list[tf.Tensor]:
    """Returns by what the losses of a task's examples are multiplied: each [batch]."""
    factors = []
    if declared.tasks[task].example_weight is not None:
        factors.append(weights[task])
    for other in declared.tasks:
        share = _kept(declared.tasks[other])
        if other != task and share is not None:
            # Ingestion has kept this share of the other task's negatives: each stands for 1 / share of them.
            factors.append(tf.where(tf.equal(labels[other], 0.0), 1.0 / share, 1.0))
    return factors


def _kept(task: Task) -> float | None:
    return task.keep_negatives if isinstance(task, BinaryTask) else None


def _last_of_chain(declared: RankerSpec) -> str | None:
    return declared.model.chain[-1] if isinstance(declared.model, Esmm | Aitm) else None


def predictions(declared: RankerSpec, tasks: Sequence[str], logits_BT: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns what is predicted, {task: [batch, 1]}: a probability, a number, or a time in units of the label."""
    parts = tf.split(logits_BT, len(tasks), axis=1)
    return {task: prediction(declared.tasks[task], logits_B1) for task, logits_B1 in zip(tasks, parts, strict=True)}


def prediction(task: Task, logits: tf.Tensor) -> tf.Tensor:
    """Returns what a task's logits predict, in their shape.

    A binary task of whose negatives a share k was kept learns the odds of what was kept; the true ones are k times
    these: sigmoid(z + log k).
    Reference: He et al.: Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014, section 6.3.
    """
    match task:
        case BinaryTask(keep_negatives=share):
            return tf.sigmoid(logits if share is None else logits + math.log(share))
        case RegressionTask(loss=LogError()):
            return tf.math.expm1(logits)
        case RegressionTask():
            return logits
        case WatchTimeTask(unit=unit):
            return tf.exp(logits) * unit
        case _:
            assert_never(task)
