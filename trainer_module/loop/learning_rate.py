"""The factor of all learning rates, a pure function of the step."""

import math
from typing import assert_never

import numpy as np
import tensorflow as tf

from sangam.schemas.spec.training import Constant, Cosine, Schedule, Stepwise, Training
from sangam.trainer_module.snapshot import Arrays

_START, _PACE = "schedule_start", "schedule_pace"


class StepsOfSchedule:
    """Counts the steps of a schedule: from its first step, `pace` for each step of training."""

    def __init__(self) -> None:
        self._start = tf.Variable(0, dtype=tf.int64, trainable=False, name=_START)
        self._pace = tf.Variable(1.0, dtype=tf.float64, trainable=False, name=_PACE)

    def begin(self, *, step: int, pace: float = 1.0) -> None:
        """Restarts after a step."""
        self._start.assign(step)
        self._pace.assign(pace)

    def at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the schedule's step at a training step: int64 scalar, from 1."""
        done = tf.cast(step - 1 - self._start, tf.float64) * self._pace
        return tf.cast(done, tf.int64) + 1

    def snapshot(self) -> Arrays:
        """Returns the state for `restore`."""
        return {_START: np.array([int(self._start)], np.int64), _PACE: np.array([float(self._pace)], np.float64)}

    def restore(self, arrays: Arrays, *, step: int) -> None:
        """Restores a snapshot; if it has no start, the schedule begins at `step`."""
        self.begin(step=int(arrays.get(_START, [step])[0]), pace=float(arrays.get(_PACE, [1.0])[0]))


def rates(training: Training, step: int) -> dict[str, float]:
    """Returns the learning rates at a step, from 1: of dense weights, and of rows without an optimizer of their own."""
    by = float(factor(training.schedule, tf.constant(step, tf.int64)))
    optimizers = {"dense": training.dense_optimizer, "rows": training.embedding_optimizer}
    return {name: by * optimizer.learning_rate for name, optimizer in optimizers.items()}


def factor(schedule: Schedule, step: tf.Tensor) -> tf.Tensor | float:
    """Returns the factor of a step: float32 scalar.

    In the n-th of N warm-up steps it is n / N. With s steps done since the warm-up, it is 1 (constant), floor +
    (1 - floor) (1 + cos(pi min(s / decay_steps, 1))) / 2 (cosine), factor^floor(s / every_steps) (step).
    Reference: Goyal et al.: Accurate, large minibatch SGD, 2017, section 2.2; Loshchilov, Hutter: SGDR, ICLR 2017,
    equation 5.

    Args:
        schedule: the schedule.
        step: from 1.
    """
    done = tf.maximum(step - 1 - schedule.warmup_steps, 0)
    match schedule:
        case Constant(warmup_steps=0):
            return 1.0
        case Constant():
            after = tf.constant(1.0)
        case Cosine(decay_steps=steps, floor=floor):
            part = tf.cast(tf.minimum(done, steps), tf.float32) / steps
            after = floor + (1.0 - floor) * (1.0 + tf.cos(math.pi * part)) / 2.0
        case Stepwise(every_steps=steps, factor=each):
            after = tf.pow(each, tf.cast(done // steps, tf.float32))
        case _:
            assert_never(schedule)
    if schedule.warmup_steps == 0:
        return after
    return after * tf.minimum(tf.cast(step, tf.float32) / schedule.warmup_steps, 1.0)
