"""The bookkeeping of a row: event time of its id's newest occurrence, and the number of occurrences.

Two int32 numbers, kept as the bits of two floats at the end of the row, so that a row is read and written whole. They
are copied and cast bit by bit, never computed with as floats.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

MINUTES_A_DAY = 24 * 60
_MOST = 2**31 - 1


def new_books(newest: tf.Tensor) -> tf.Tensor:
    """Returns the bookkeeping of new rows: minutes since 1970 [n] int32 to [n, 2] float32."""
    return tf.bitcast(tf.stack([newest, tf.zeros_like(newest)], 1), tf.float32)


def merged_books(books: tf.Tensor, newest: tf.Tensor, occurrences: tf.Tensor) -> tf.Tensor:
    """Returns the bookkeeping after a step: [n, 2] float32, [n] int32, [n] int32 to [n, 2] float32.

    An event older than the newest one seen changes no time: replaying an old day refreshes no row.
    """
    seen, count = tf.unstack(tf.bitcast(books, tf.int32), axis=1)
    count = tf.minimum(count, _MOST - occurrences) + occurrences
    return tf.bitcast(tf.stack([tf.maximum(seen, newest), count], 1), tf.float32)


def read_books(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns minutes of the newest event and occurrences, from the last two columns: [n, 2] float32 to 2 x [n]."""
    bits = np.ascontiguousarray(rows).view(np.int32)
    return bits[:, 0], bits[:, 1]
