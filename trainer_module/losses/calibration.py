"""A fitted calibration as TensorFlow computes it, in training and in the exported graph."""

import tensorflow as tf

from schemas.contracts.calibration import Calibration


def calibrated(calibration: Calibration, logits: tf.Tensor) -> tf.Tensor:
    """Returns the calibrated logits, float64, in the shape of the logits.

    Float32 logits keep their order, and those that differ by 1e-9 or more still differ: the slopes are far above what
    float64 rounds.
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
