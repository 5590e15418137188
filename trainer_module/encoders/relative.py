"""Biases of attention by how far a value lies from who attends, in positions and in time."""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.spec.buckets import AGE_STEPS, POSITION_STEPS

_MANTISSA_BITS, _EXPONENT_OF_1 = 23, 127

# Shape suffixes: H heads, r lists, Q who attends, L positions of values.


def buckets(differences: tf.Tensor, steps: int, num: int) -> tf.Tensor:
    """Returns `schemas.spec.buckets.bucket` of float32 differences: int32, 0 below 0, at most num - 1.

    Read off the bits of 1 + x, exponent and first digits: a logarithm rounds otherwise in each library, and scores
    would differ where a difference lies at a bucket's end.
    """
    shift = _MANTISSA_BITS - (steps.bit_length() - 1)
    bits = tf.bitcast(tf.maximum(differences, 0.0) + 1.0, tf.int32)
    return tf.clip_by_value(tf.bitwise.right_shift(bits, shift) - _EXPONENT_OF_1 * steps, 0, num - 1)


def biases(
    tables: Sequence[tf.Tensor],
    position_Q1: tf.Tensor,
    length: tf.Tensor,
    ages: tuple[tf.Tensor, tf.Tensor] | None,
) -> tf.Tensor:
    """Returns what is added to logits: [H, r or 1, Q, L].

    Args:
        tables: biases by bucket of positions, [H, any], and of ages, [H, any], where there are ages.
        position_Q1: positions of who attends: from 0, newest first; -1 of a target.
        length: L.
        ages: seconds of who attends, [r or 1, Q or 1, 1], and of the values, [r, 1, L]; None without times.
    """
    position_L = tf.range(length, dtype=tf.float32)
    positions_HP, *of_ages = tables
    bucket_QL = buckets(position_L - position_Q1, POSITION_STEPS, int(positions_HP.shape[1]))
    found = tf.gather(positions_HP, bucket_QL, axis=1)[:, None]
    if ages is None:
        return found
    [ages_HA] = of_ages
    age_rQ1, age_r1L = ages
    return found + tf.gather(ages_HA, buckets(age_r1L - age_rQ1, AGE_STEPS, int(ages_HA.shape[1])), axis=1)
