"""The average of the dense weights over steps, which is validated, exported and published in their place."""

from typing import Any, assert_never

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.spec.training import AverageOfWeights, EmaOfWeights, LastOfWeights
from sangam.trainer_module.snapshot import AVERAGE, WEIGHTS, Arrays

_STEPS = "average_steps"


class Average(tf.Module):
    """A vector beside the weights, which it follows and never changes.

    `ema`: a <- d a + (1 - d) w after each step t of the schedule, d = min(decay, (1 + t) / (10 + t)), so that the first
    steps do not weigh for long, nor a base's in a day of few steps. `last`: the mean of w after each step of the epoch
    under way.
    Reference: Polyak, Juditsky: Acceleration of stochastic approximation by averaging, SIAM Journal on Control and
    Optimization 30, 1992, for `last`.

    Attributes:
        flat: [size].
    """

    def __init__(self, spec: AverageOfWeights, weights: NDArray[Any]):
        """Begins at the weights: [size]."""
        super().__init__(name=AVERAGE)
        self._spec = spec
        self.flat = tf.Variable(weights, trainable=False, name="flat")
        self._steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="steps")
        self._epoch = -1

    def begin_epoch(self, epoch: int) -> None:
        """Restarts the mean, except in an epoch that was interrupted and is resumed."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._steps.assign(0)

    def follow(self, flat: tf.Variable, step: tf.Tensor) -> None:
        """Adds the weights after a step of the schedule, which counts from 1: [size]."""
        match self._spec:
            case EmaOfWeights(decay=decay):
                t = tf.cast(step, tf.float32)
                kept = tf.minimum(decay, (1.0 + t) / (10.0 + t))
            case LastOfWeights():
                number = tf.cast(self._steps.assign_add(1), tf.float32)
                kept = (number - 1.0) / number
            case _:
                assert_never(self._spec)
        self.flat.assign(kept * self.flat + (1.0 - kept) * flat)

    def snapshot(self) -> Arrays:
        """Returns the epoch and the number of steps of the mean; the vector lies with the weights."""
        if isinstance(self._spec, EmaOfWeights):
            return {}
        return {_STEPS: np.array([self._epoch, int(self._steps)], np.int64)}

    def restore(self, extra: Arrays) -> None:
        """Restores `snapshot`; without it the next epoch begins a mean."""
        epoch, steps = extra.get(_STEPS, np.array([-1, 0])).tolist()
        self._epoch = epoch
        self._steps.assign(steps)


def exported_weights(dense: Arrays) -> str:
    """Returns the kind of a checkpoint's arrays that is the model: the average, where training keeps one."""
    return AVERAGE if any(name.startswith(f"{AVERAGE}/") for name in dense) else WEIGHTS
