"""Finds the versions of a table before and after the one that was valid at each row's time."""

import numpy as np

from sangam.components.logs.joining.keys import NO_KEY, Integers, by_key_and_time


def versions_around(
    rows: tuple[Integers, Integers], versions: tuple[Integers, Integers], steps: range
) -> dict[int, Integers]:
    """Returns the index of the version of each row that is some steps after the one as of its time; -1: there is none.

    Args:
        rows: keys, as `codes` returns them, and times.
        versions: keys and times, in the order in which they were written.
        steps: 0: the newest that is not later than the row; -1: the one before it, 1: the one after.
    """
    row_keys, keys = rows[0], versions[0]
    if not len(keys):
        return {step: np.full(len(row_keys), -1) for step in steps}
    row_numbers, numbers = by_key_and_time(rows, versions)
    order = np.argsort(numbers, kind="stable")
    newest = np.searchsorted(numbers[order], row_numbers, side="right") - 1
    found = {}
    for step in steps:
        place = newest + step
        version = order[np.clip(place, 0, len(keys) - 1)]
        is_there = (place >= 0) & (place < len(keys)) & (keys[version] == row_keys) & (row_keys != NO_KEY)
        found[step] = np.where(is_there, version, -1)
    return found
