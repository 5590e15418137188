"""The books of a row: event time of its id's newest occurrence in minutes since 1970, and the number of occurrences.

Two int32 numbers, in a variable of their own, so that an eviction reads them alone. Outside of a store they are the
bits of two floats at the end of the row, copied bit by bit, never computed with as floats.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import BOOK_FLOATS
from sangam.trainer_module.native.library import operations

MINUTES_A_DAY = 24 * 60


class Observed(NamedTuple):
    """Facts of a step's global batch about the keys that this rank owns.

    Attributes:
        occurrences: [n] int32.
        newest: [n] int32, minutes since 1970 of the newest event; 0 where the spec has no event time.
    """

    occurrences: tf.Tensor
    newest: tf.Tensor


def new_books(newest: tf.Tensor) -> tf.Tensor:
    """Returns the books of new rows: minutes since 1970 [n] int32 to [n, 2] int32."""
    return tf.stack([newest, tf.zeros_like(newest)], 1)


def merge_books(books: tf.Variable, numbers: tf.Tensor, newest: tf.Tensor, occurrences: tf.Tensor) -> tf.Operation:
    """Merges a step's usage into the books of rows.

    An event older than the newest one seen changes no time: replaying an old day refreshes no row.

    Args:
        books: [any, 2] int32.
        numbers: [n] int64, each once but 0.
        newest: [n] int32.
        occurrences: [n] int32.
    """
    return operations().sangam_merge_books(books.handle, numbers, newest, occurrences)


def apart(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns rows without their books, and the books: [n, width] float32 to [n, width - 2] and [n, 2] int32."""
    return rows[:, :-BOOK_FLOATS], np.ascontiguousarray(rows[:, -BOOK_FLOATS:]).view(np.int32)


def joined(rows: NDArray[Any], books: NDArray[Any]) -> NDArray[Any]:
    """Returns the inverse of `apart`."""
    return np.concatenate([rows, books.view(np.float32)], axis=1)
