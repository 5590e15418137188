"""float16 on the wire."""

import numpy as np
import tensorflow as tf

_TOP_EXPONENT = 14.0
_LARGEST_EXPONENT = 126.0
"""Of the factor: it and its inverse are numbers of float32."""


def half_of(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a gradient as float16, and what to multiply it by again.

    It is scaled by a power of two so that its largest number is near the top of float16's range: none overflows, and
    the error of each is at most 2^-11 of itself, or 2^-39 of the largest (if that is over 2^-112). Not finite stays not
    finite.
    """
    largest = tf.maximum(tf.reduce_max(tf.abs(gradient)), 0.0)  # Of no numbers it is -infinity.
    is_scalable = tf.math.is_finite(largest) & (largest > 0.0)
    exponent = tf.floor(tf.math.log(tf.where(is_scalable, largest, 1.0)) / np.log(2.0))
    shift = tf.clip_by_value(_TOP_EXPONENT - exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    factor = tf.pow(2.0, shift)
    return tf.cast(gradient * factor, tf.float16), 1.0 / factor
