"""The loss of each example by its logit and label: pure functions, [B] and [B] to [B].

All are finite, and so are their gradients, for any finite logit and allowed label.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import assert_never

import tensorflow as tf

from sangam.schemas.parts.roles import Examples, Loss
from sangam.schemas.spec.tasks import (
    BinaryTask,
    CrossEntropy,
    Focal,
    Huber,
    LogError,
    RegressionTask,
    SquaredError,
    Task,
    WatchTimeTask,
)
from sangam.trainer_module.outside import computed


def example_losses(task: Task, logits_B: tf.Tensor, examples: Examples) -> tf.Tensor:
    """Returns the loss of each of a task's examples: [batch]."""
    match task:
        case WatchTimeTask(unit=unit):
            return weighted_logistic(logits_B, examples.labels_B / unit)
        case BinaryTask() | RegressionTask():
            return losses_of(task.loss, task, logits_B, examples)
        case _:
            assert_never(task)


def ids_read(task: Task) -> Sequence[str]:
    """Returns the features whose ids a task's loss reads."""
    return task.loss.reads() if isinstance(task, BinaryTask | RegressionTask) else ()


@singledispatch
def losses_of(loss: Loss, task: Task, logits_B: tf.Tensor, examples: Examples) -> tf.Tensor:
    """Returns the loss of each example by a task's `loss`; each kind of the product registers its own here."""
    given = replace(examples, labels_B=standard(task, examples.labels_B))
    return computed(loss, logits_B, given, shape=[logits_B.shape[0]], dtype=tf.float32)


@losses_of.register
def _(loss: CrossEntropy, task: Task, logits_B: tf.Tensor, examples: Examples) -> tf.Tensor:
    del task
    return cross_entropy(logits_B, examples.labels_B, smoothing=loss.label_smoothing)


@losses_of.register
def _(loss: Focal, task: Task, logits_B: tf.Tensor, examples: Examples) -> tf.Tensor:
    del task
    return focal(logits_B, examples.labels_B, gamma=loss.gamma, alpha=loss.alpha, smoothing=loss.label_smoothing)


@losses_of.register
def _(loss: SquaredError, task: Task, logits_B: tf.Tensor, examples: Examples) -> tf.Tensor:
    del loss
    return tf.square(logits_B - standard(task, examples.labels_B))


@losses_of.register
def _(loss: Huber, task: Task, logits_B: tf.Tensor, examples: Examples) -> tf.Tensor:
    return huber(logits_B - standard(task, examples.labels_B), delta=loss.delta / scale_of(task))


@losses_of.register
def _(loss: LogError, task: Task, logits_B: tf.Tensor, examples: Examples) -> tf.Tensor:
    del loss
    return tf.square(logits_B - standard(task, tf.math.log1p(examples.labels_B)))


def standard(task: Task, labels: tf.Tensor) -> tf.Tensor:
    """Returns (label - center) / scale of a regression, in the shape of the labels."""
    return (labels - task.center) / task.scale if isinstance(task, RegressionTask) else labels


def scale_of(task: Task) -> float:
    """Returns the units of the label in one of the logit."""
    return task.scale if isinstance(task, RegressionTask) else 1.0


def cross_entropy(logits_B: tf.Tensor, labels_B: tf.Tensor, *, smoothing: float) -> tf.Tensor:
    """Returns -y' log p - (1 - y') log(1 - p), y' = y (1 - s) + s / 2.

    Reference: Szegedy et al.: Rethinking the Inception architecture, CVPR 2016, section 7, with a uniform u over two
    classes.
    """
    targets_B = _smoothed(labels_B, smoothing) if smoothing else labels_B
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets_B, logits=logits_B)


def _smoothed(labels_B: tf.Tensor, smoothing: float) -> tf.Tensor:
    return labels_B * (1.0 - smoothing) + smoothing / 2.0


def focal(
    logits_B: tf.Tensor, labels_B: tf.Tensor, *, gamma: float, alpha: float | None, smoothing: float = 0.0
) -> tf.Tensor:
    """Returns -alpha_t (1 - p_t)^gamma log p_t; alpha_t is 1 without an alpha.

    With smoothing both labels' losses, weighted as in `cross_entropy`, which it equals for gamma 0 without alpha.
    Reference: Lin et al.: Focal loss for dense object detection, ICCV 2017, equations 4 and 5.
    """
    if smoothing:
        targets_B, ones_B = _smoothed(labels_B, smoothing), tf.ones_like(labels_B)
        of_one, of_zero = (focal(logits_B, y_B, gamma=gamma, alpha=alpha) for y_B in (ones_B, 1.0 - ones_B))
        return targets_B * of_one + (1.0 - targets_B) * of_zero
    toward_label_B = logits_B * (2.0 * labels_B - 1.0)
    # By logarithms: log p_t = -softplus(-z_t), log(1 - p_t) = -softplus(z_t). A power of 1 - p_t would have an infinite
    # gradient where that is rounded to 0.
    losses_B = tf.exp(-gamma * tf.math.softplus(toward_label_B)) * tf.math.softplus(-toward_label_B)
    if alpha is None:
        return losses_B
    return losses_B * (alpha * labels_B + (1.0 - alpha) * (1.0 - labels_B))


def huber(errors_B: tf.Tensor, *, delta: float) -> tf.Tensor:
    """Returns e^2 / 2 where |e| <= delta, else delta (|e| - delta / 2).

    >>> huber(tf.constant([0.5, -3.0]), delta=1.0).numpy().tolist()
    [0.125, 2.5]

    Reference: Huber: Robust estimation of a location parameter, Annals of Mathematical Statistics 1964.
    """
    sizes_B = tf.abs(errors_B)
    near_B = tf.minimum(sizes_B, delta)
    return near_B * (sizes_B - near_B / 2.0)


def weighted_logistic(logits_B: tf.Tensor, times_B: tf.Tensor) -> tf.Tensor:
    """Returns -t log p where t > 0, else -log(1 - p): the odds e^z are the expected time.

    >>> [round(loss, 4) for loss in weighted_logistic(tf.zeros([2]), tf.constant([0.0, 10.0])).numpy().tolist()]
    [0.6931, 6.9315]

    Exactly, they are (sum of times) / (number of examples with time 0).
    Reference: Covington et al.: Deep neural networks for YouTube recommendations, RecSys 2016, section 4.2.
    """
    of_none_B = tf.cast(times_B <= 0.0, tf.float32)
    return times_B * tf.math.softplus(-logits_B) + of_none_B * tf.math.softplus(logits_B)
