"""Biases of attention by how far a value lies from who attends, in positions and in time."""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.spec.buckets import NUM_BUCKETS, POSITION_STEPS

HIDDEN = -1e9
"""Logit of what is not seen: both a softmax and silu make exactly 0 of it."""
_MANTISSA_BITS, _EXPONENT_OF_1 = 23, 127

# Shape suffixes: H heads, r lists, Q who attends, L positions of values, W distances between them.


def distance_buckets(distances: tf.Tensor, num: int) -> tf.Tensor:
    """Returns `schemas.spec.buckets.bucket` of float32 distances: int32, 0 below 0, at most num - 1."""
    return _highest_bits(tf.maximum(distances, 0.0) + 1.0, POSITION_STEPS.bit_length() - 1, num)


def number_buckets(numbers: tf.Tensor) -> tf.Tensor:
    """Returns the bucket of each float32 number by `schemas.spec.buckets.bucket_starts`: int32.

    Two for each doubling of 1 + x are one for each of its square.
    """
    return _highest_bits(tf.square(tf.maximum(numbers, 0.0) + 1.0), 0, NUM_BUCKETS)


def _highest_bits(numbers: tf.Tensor, digits: int, num: int) -> tf.Tensor:
    """Returns exponents and so many first digits of numbers from 1, at most num - 1.

    Read off the bits: a logarithm rounds otherwise in each library and by how many are computed together, and scores
    would differ where a number lies at a bucket's end.
    """
    bits = tf.bitwise.right_shift(tf.bitcast(numbers, tf.int32), _MANTISSA_BITS - digits)
    return tf.clip_by_value(bits - (_EXPONENT_OF_1 << digits), 0, num - 1)


def among_values(
    tables: Sequence[tf.Tensor], num_Q: tf.Tensor, ages_rL: tf.Tensor | None, num_L: tf.Tensor
) -> tf.Tensor:
    """Returns what is added to logits of the newest values of lists: [H, r or 1, Q, L]; `HIDDEN` of what is newer.

    Args:
        tables: biases by bucket of positions, [H, any], and of ages, [H, any], where there are ages.
        num_Q: how many attend, the newest ones.
        ages_rL: seconds from the values to their row's time; None without times.
        num_L: values of the longest list.
    """
    num_Q, num_L = tf.cast(num_Q, tf.int32), tf.cast(num_L, tf.int32)
    of_distances = _of_distances(tables[0], num_Q, num_L)
    if ages_rL is None:
        return of_distances
    age_rQL = ages_rL[:, None] - ages_rL[:, :num_Q, None]
    return of_distances + _of_ages(tables[1], age_rQL)


def _of_distances(positions_HP: tf.Tensor, num_Q: tf.Tensor, num_L: tf.Tensor) -> tf.Tensor:
    """Returns the biases of positions: [H, 1, Q, L].

    Each row is the one above it, shifted: cut out of one that is repeated, a third of the time of looking up each.
    """
    first = tf.maximum(num_Q - 1, 0)  # Of a short list, a block has no value.
    distance_W = tf.range(-first, num_L + 1)
    bucket_W = distance_buckets(tf.cast(distance_W, tf.float32), int(positions_HP.shape[1]))
    row_HW = tf.where(distance_W >= 0, tf.gather(positions_HP, bucket_W, axis=1), HIDDEN)
    repeated = tf.reshape(tf.tile(row_HW[:, None], tf.stack([1, num_Q, 1])), [positions_HP.shape[0], -1])
    width = first + num_L
    # In rows one number shorter, each begins one number earlier than the one above it.
    shifted = repeated[:, first : first + num_Q * width]
    return tf.reshape(shifted, tf.stack([positions_HP.shape[0], 1, num_Q, width]))[..., :num_L]


def of_candidates(tables: Sequence[tf.Tensor], ages_rL: tf.Tensor | None, num_L: tf.Tensor) -> tf.Tensor:
    """Returns what is added to logits of candidates: [H, r or 1, L]. See `among_values`.

    A candidate is one position before the newest value, and has age 0.
    """
    distance_L = tf.range(1, tf.cast(num_L, tf.int32) + 1)
    bucket_L = distance_buckets(tf.cast(distance_L, tf.float32), int(tables[0].shape[1]))
    found = tf.gather(tables[0], bucket_L, axis=1)[:, None]
    return found if ages_rL is None else found + _of_ages(tables[1], ages_rL)


def _of_ages(ages_HA: tf.Tensor, difference: tf.Tensor) -> tf.Tensor:
    return tf.gather(ages_HA, number_buckets(difference), axis=1)
