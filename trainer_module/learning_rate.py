"""The factor of all learning rates, a pure function of the step."""

import math

import tensorflow as tf
from typing_extensions import assert_never

from schemas.training import Constant, Cosine, Schedule, Stepwise


def factor(declared: Schedule, step: tf.Tensor) -> tf.Tensor | float:
    """Returns the factor of a step: float32 scalar.

    In the n-th of N warm-up steps it is n / N. With s steps done since the warm-up, it is 1 (constant), floor +
    (1 - floor) (1 + cos(pi min(s / decay_steps, 1))) / 2 (cosine), factor^floor(s / every_steps) (step).
    Reference: Goyal et al.: Accurate, large minibatch SGD, 2017, section 2.2; Loshchilov, Hutter: SGDR, ICLR 2017,
    equation 5.

    Args:
        declared: how it changes.
        step: from 1.
    """
    done = tf.maximum(step - 1 - declared.warmup_steps, 0)
    match declared:
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
            assert_never(declared)
    if declared.warmup_steps == 0:
        return after
    return after * tf.minimum(tf.cast(step, tf.float32) / declared.warmup_steps, 1.0)
