"""Numbers for keys: equal numbers for equal keys, buckets by hash, and numbers that sort by key and time."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.rows.hashes import hashes

Integers = NDArray[np.int64]
NO_KEY = -1


def codes(*sides: Sequence[pa.Array], nulls_are_equal: bool = False) -> tuple[Integers, ...]:
    """Returns a number for each row of each side, equal where all columns are equal.

    Args:
        sides: key columns, equal in names and types: int64, float64 or binary.
        nulls_are_equal: whether null equals null. Otherwise a row with a null has the number NO_KEY.
    """
    lengths = [len(side[0]) for side in sides]
    total = np.zeros(sum(lengths), np.int64)
    is_known = np.ones(len(total), bool)
    for arrays in zip(*sides, strict=True):
        array = pa.concat_arrays(arrays)
        encoded = array.dictionary_encode(null_encoding="encode")
        numbers = np.asarray(encoded.indices).astype(np.int64)
        is_known &= np.asarray(array.is_valid(), dtype=bool) | nulls_are_equal
        total = total * max(len(encoded.dictionary), 1) + numbers
        if len(sides[0]) > 1:
            # Dense again, so that the next column does not overflow.
            total = np.unique(total, return_inverse=True)[1].astype(np.int64)
    total[~is_known] = NO_KEY
    return tuple(np.split(total, np.cumsum(lengths)[:-1]))


def buckets(keys: Sequence[pa.Array], num_buckets: int) -> Integers:
    """Returns the bucket of each row: a hash of its keys, the same for every file, process and machine."""
    return (hashes(keys) % np.uint64(num_buckets)).astype(np.int64)


def by_key_and_time(*sides: tuple[Integers, Integers]) -> tuple[Integers, ...]:
    """Returns a number for each row of each side that sorts by key, then time; equal only if both are.

    Args:
        sides: keys, as `codes` returns them, and times.
    """
    moments = np.unique(np.concatenate([times for _, times in sides]))
    return tuple(keys * len(moments) + np.searchsorted(moments, times) for keys, times in sides)
