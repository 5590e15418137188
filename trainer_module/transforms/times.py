"""Times: parts of the clock and the calendar, and ages."""

import math
from typing import assert_never

import tensorflow as tf

from sangam.schemas.derived.rank_inputs import MISSING
from sangam.schemas.spec.features import AgeFeature, TimeFeature, replacement_of
from sangam.trainer_module.transforms.columns import is_present, one_value
from sangam.trainer_module.transforms.ids import keys_of_numbers
from sangam.trainer_module.transforms.ranges import numbers_of

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_UNITS_S = {"seconds": 1, "minutes": _MINUTE_S, "hours": _HOUR_S, "days": _DAY_S}
_MOST_S = 2**61
_THURSDAY = 3
"""1970-01-01, with Monday as 0."""
_SIZES = {"hour": 24, "weekday": 7}

# Shape suffixes: R rows of a column; n values of their lists.


def time_keys(feature: TimeFeature, tag: int, column: tf.SparseTensor) -> tf.Tensor:
    """Returns the key of each row's hour or weekday: int64 [R]."""
    return keys_of_numbers(tag, _part(feature, column), is_present(column), missing_row=feature.missing_row)


def time_points(feature: TimeFeature, column: tf.SparseTensor) -> tf.Tensor:
    """Returns sine and cosine of 2 pi hour / 24, or of 2 pi weekday / 7: float32 [R, 2].

    A required time that a request lacks is the middle of the circle, (0, 0).
    """
    size = _SIZES[feature.part]
    angles = [2.0 * math.pi * part / size for part in range(size)]
    # Looked up: the last bit of TensorFlow's sine depends on how many are computed together.
    points_R2 = tf.gather(tf.constant([[math.sin(angle), math.cos(angle)] for angle in angles]), _part(feature, column))
    return tf.where(is_present(column)[:, None], points_R2, tf.zeros_like(points_R2))


def _part(feature: TimeFeature, column: tf.SparseTensor) -> tf.Tensor:
    """Returns the hour, 0 .. 23, or the weekday, 0 .. 6, in the feature's time zone: int64 [R]."""
    local_s = one_value(column, tf.constant(0, tf.int64)) + feature.utc_offset_minutes * _MINUTE_S
    match feature.part:
        case "hour":
            return tf.math.floormod(local_s // _HOUR_S, _SIZES["hour"])
        case "weekday":
            return tf.math.floormod(local_s // _DAY_S + _THURSDAY, _SIZES["weekday"])
        case _:
            assert_never(feature.part)


def ages(feature: AgeFeature, since: tf.SparseTensor, at: tf.SparseTensor) -> tf.Tensor:
    """Returns ages in the feature's unit, NaN where there is neither an age nor a default: float32 [R]."""
    zero = tf.constant(0, tf.int64)
    # Subtracted as integers: seconds since 1970 have ten digits, float32 has seven.
    # Clipped, so that the difference cannot overflow.
    at_s, since_s = (tf.clip_by_value(one_value(time, zero), -_MOST_S, _MOST_S) for time in (at, since))
    age_s = tf.maximum(at_s - since_s, 0)
    age_R = tf.cast(age_s, tf.float32) / _UNITS_S[feature.unit]
    return tf.where(is_present(since) & is_present(at), age_R, replacement_of(feature))


def ages_of_events(times_n: tf.Tensor, lengths_R: tf.Tensor, at_R: tf.Tensor) -> tf.Tensor:
    """Returns the seconds from each event to its row's time, at least 0: float32 [n].

    Without its time, a row is as old as its newest event.

    >>> ages_of_events(*(tf.constant(each, tf.int64) for each in ([7, 4, 9], [2, 1], [10, 8]))).numpy().tolist()
    [3.0, 6.0, 0.0]
    """
    row_n = numbers_of(lengths_R)
    newest_R = tf.math.unsorted_segment_max(times_n, row_n, tf.size(lengths_R))
    at_R = tf.where(tf.equal(at_R, MISSING["int"]), newest_R, at_R)
    at_s, since_s = (tf.clip_by_value(time, -_MOST_S, _MOST_S) for time in (tf.gather(at_R, row_n), times_n))
    return tf.cast(tf.maximum(at_s - since_s, 0), tf.float32)
