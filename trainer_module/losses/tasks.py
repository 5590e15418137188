"""All tasks of a batch: their losses with masks and weights, and the predictions of their logits."""

import math
from collections.abc import Mapping, Sequence
from typing import assert_never

import tensorflow as tf

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.parts.roles import Examples
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.models import Aitm, Esmm
from sangam.schemas.spec.tasks import BinaryTask, LogError, RegressionTask, Task, WatchTimeTask
from sangam.trainer_module.losses.examples import example_losses

# Shape suffixes: B batch, T tasks.


def loss_sums(
    spec: RankerSpec,
    tasks: Sequence[str],
    logits_BT: tf.Tensor,
    labels_BT: tf.Tensor,
    weights_BT: tf.Tensor | None = None,
    auxiliary_B: tf.Tensor | None = None,
    ids: Mapping[str, tf.Tensor] | None = None,
) -> tf.Tensor:
    """Returns each task's loss, summed over the batch: [tasks].

    An example without a label of a task (NaN) adds nothing to its sum, nor to its gradient. It still counts
    in the number of examples by which the trainer divides: a task on a tenth of the examples has a tenth of the weight.

    Args:
        spec: spec of the ranker.
        tasks: names, in the order of the logits.
        logits_BT: [batch, tasks].
        labels_BT: [batch, tasks], NaN where a task is masked.
        weights_BT: [batch, tasks], of examples; read for tasks that declare an `example_weight`.
        auxiliary_B: [batch], a loss of the model itself; counts as the last task's of its chain.
        ids: [batch] int64, of the features that losses read.
    """
    labels = dict(zip(tasks, tf.unstack(labels_BT, len(tasks), axis=1), strict=True))
    weights = (
        dict(zip(tasks, tf.unstack(weights_BT, len(tasks), axis=1), strict=True)) if weights_BT is not None else {}
    )
    sums = []
    for task, logits_B in zip(tasks, tf.unstack(logits_BT, len(tasks), axis=1), strict=True):
        has_label_B = ~tf.math.is_nan(labels[task])
        # Masked before the loss and after it: a NaN masked only afterwards still has the gradient NaN.
        examples = Examples(tf.where(has_label_B, labels[task], 0.0), has_label_B, ids or {})
        losses_B = example_losses(spec.tasks[task], logits_B, examples)
        for factor_B in _factors(spec, task, labels, weights):
            losses_B *= tf.where(has_label_B, factor_B, 0.0)
        losses_B = tf.where(has_label_B, losses_B, 0.0)
        if auxiliary_B is not None and task == _last_of_chain(spec):
            losses_B += auxiliary_B
        sums.append(tf.reduce_sum(losses_B))
    return tf.stack(sums)


def _factors(
    spec: RankerSpec, task: str, labels: dict[str, tf.Tensor], weights: dict[str, tf.Tensor]
) -> list[tf.Tensor]:
    """Returns the factors of the losses of a task's examples: each [batch]."""
    factors = []
    if spec.tasks[task].example_weight is not None:
        factors.append(weights[task])
    for other in spec.tasks:
        share = _kept(spec.tasks[other])
        if other != task and share is not None:
            # Ingestion kept this share of the other task's negatives: each stands for 1 / share of them.
            factors.append(tf.where(tf.equal(labels[other], 0.0), 1.0 / share, 1.0))
    return factors


def _kept(task: Task) -> float | None:
    return task.keep_negatives if isinstance(task, BinaryTask) else None


def _last_of_chain(spec: RankerSpec) -> str | None:
    return spec.model.chain[-1] if isinstance(spec.model, Esmm | Aitm) else None


def predictions(
    spec: RankerSpec, tasks: Sequence[str], logits_BT: tf.Tensor, calibrations: Mapping[str, Calibration]
) -> dict[str, tf.Tensor]:
    """Returns the predictions, {task: [batch, 1]}: a probability, a number, or a time in units of the label."""
    parts = tf.split(logits_BT, len(tasks), axis=1)
    return {
        task: prediction(spec.tasks[task], logits_B1, calibrations.get(task))
        for task, logits_B1 in zip(tasks, parts, strict=True)
    }


def logits_of_mean_prediction(spec: RankerSpec, tasks: Sequence[str], logits_KBT: tf.Tensor) -> tf.Tensor:
    """Returns the logits whose predictions are the means of the members' predictions: [batch, tasks].

    Args:
        spec: spec of the ranker.
        tasks: names, in the order of the logits.
        logits_KBT: logits of each member: [members, batch, tasks].
    """
    parts = tf.unstack(logits_KBT, len(tasks), axis=2)
    means = [_logit_of_mean(spec.tasks[task], logits_KB) for task, logits_KB in zip(tasks, parts, strict=True)]
    return tf.stack(means, axis=1)


def _logit_of_mean(task: Task, logits_KB: tf.Tensor) -> tf.Tensor:
    match task:
        case BinaryTask():
            # By logarithms: a mean of probabilities that is rounded to 0 or 1 has no finite logit.
            shift = correction(task)
            of_one, of_zero = (
                tf.reduce_logsumexp(tf.math.log_sigmoid(sign * (logits_KB + shift)), axis=0) for sign in (1.0, -1.0)
            )
            return of_one - of_zero - shift
        case RegressionTask(loss=LogError()):
            labels_KB = task.center + task.scale * logits_KB
            mean_B = tf.reduce_logsumexp(labels_KB, axis=0) - math.log(logits_KB.shape[0])
            return (mean_B - task.center) / task.scale
        case WatchTimeTask():
            return tf.reduce_logsumexp(logits_KB, axis=0) - math.log(logits_KB.shape[0])
        case RegressionTask():
            return tf.reduce_mean(logits_KB, axis=0)
        case _:
            assert_never(task)


def prediction(task: Task, logits: tf.Tensor, calibration: Calibration | None = None) -> tf.Tensor:
    """Returns the predictions of a task's logits, in their shape, float32."""
    match task:
        case BinaryTask():
            corrected = logits + correction(task) if task.keep_negatives else logits
            if calibration is None:
                return tf.sigmoid(corrected)
            return tf.cast(tf.sigmoid(calibrated(calibration, corrected)), tf.float32)
        case RegressionTask(loss=LogError()):
            return tf.math.expm1(task.center + task.scale * logits)
        case RegressionTask():
            return task.center + task.scale * logits
        case WatchTimeTask(unit=unit):
            return tf.exp(logits) * unit
        case _:
            assert_never(task)


def correction(task: BinaryTask) -> float:
    """Returns the correction of a logit for sampled negatives: log k.

    With a share k of the negatives kept, the model learns the odds among the kept examples; the true odds are k times
    these: sigmoid(z + log k).
    Reference: He et al.: Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014, section 6.3.
    """
    return math.log(task.keep_negatives) if task.keep_negatives else 0.0


def calibrated(calibration: Calibration, logits: tf.Tensor) -> tf.Tensor:
    """Returns the calibrated logits, float64, in the shape of the logits.

    Float32 logits keep their order, and those that differ by 1e-9 or more still differ: the slopes are far above the
    rounding of float64.
    """
    z = tf.cast(logits, tf.float64)
    first, last = calibration.logits[0], calibration.logits[-1]
    if len(calibration.logits) == 1:
        return calibration.calibrated[0] + calibration.slope * (z - first)
    x_K, y_K = (tf.constant(values, tf.float64) for values in (calibration.logits, calibration.calibrated))
    inside = tf.clip_by_value(z, first, last)
    right = tf.searchsorted(x_K, tf.reshape(inside, [-1]), side="right")
    left = tf.reshape(tf.clip_by_value(right - 1, 0, len(calibration.logits) - 2), tf.shape(z))
    slopes_K = (y_K[1:] - y_K[:-1]) / (x_K[1:] - x_K[:-1])
    between = tf.gather(y_K, left) + tf.gather(slopes_K, left) * (inside - tf.gather(x_K, left))
    return between + calibration.slope * (z - inside)
