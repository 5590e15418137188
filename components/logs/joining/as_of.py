"""Finds the version of a table that was valid at each row's time: never a later one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sangam.components.logs.joining.keys import NO_KEY, Integers, by_key_and_time


@dataclass(frozen=True)
class AsOf:
    """The version of each row.

    Attributes:
        version: index of the version; -1 if there is none.
        is_unknown: the row's keys have no version.
        is_early: all versions of its keys are later than the row.
        is_stale: the newest version that is not later is too old.
    """

    version: Integers
    is_unknown: NDArray[np.bool_]
    is_early: NDArray[np.bool_]
    is_stale: NDArray[np.bool_]


def as_of(rows: tuple[Integers, Integers], versions: tuple[Integers, Integers], max_age_s: int) -> AsOf:
    """Finds for each row the newest version with its keys and a time that is not later than the row's.

    Of several versions with equal keys and times, the last one counts.

    Args:
        rows: keys, as `codes` returns them, and times.
        versions: keys and times, in the order in which they were written.
        max_age_s: maximum age of a version.
    """
    (row_keys, row_times), (keys, times) = rows, versions
    if not len(keys):
        none = np.zeros(len(row_keys), bool)
        return AsOf(np.full(len(row_keys), -1), row_keys != NO_KEY, none, none)
    row_numbers, numbers = by_key_and_time(rows, versions)
    order = np.argsort(numbers, kind="stable")
    found = np.searchsorted(numbers[order], row_numbers, side="right") - 1
    version = order[np.maximum(found, 0)]
    has_key = row_keys != NO_KEY
    has_version = has_key & (found >= 0) & (keys[version] == row_keys)
    is_stale = has_version & (times[version] < row_times - max_age_s)
    is_known = np.isin(row_keys, keys)
    return AsOf(
        version=np.where(has_version & ~is_stale, version, -1),
        is_unknown=has_key & ~is_known,
        is_early=has_key & is_known & ~has_version,
        is_stale=is_stale,
    )
