"""Finds the actions that follow each row within a window, and reduces them to numbers."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sangam.components.logs.joining.keys import NO_KEY, Integers, by_key_and_time

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Windows:
    """The actions in each row's window: those at `order[first:last]`, by time, then as they were written.

    Attributes:
        order: indices of the actions that count.
        first: first action of each row.
        last: end of the actions of each row, exclusive.
        is_joined: for each action, whether it is in a row's window.
        is_early: whether it is before every row of its keys.
        is_late: whether it is after the windows of the rows of its keys, and not before all of them.
        is_alone: no row has its keys.
        has_earlier_only: for each row, whether it has no action in its window, and one before its time.
    """

    order: Integers
    first: Integers
    last: Integers
    is_joined: Mask
    is_early: Mask
    is_late: Mask
    is_alone: Mask
    has_earlier_only: Mask


def windows(
    rows: tuple[Integers, Integers], actions: tuple[Integers, Integers], window_s: int, is_repeated: Mask
) -> Windows:
    """Finds the actions with a row's keys from its time to `window_s` later, both included.

    Each row is joined by itself: an action may be in the windows of several rows.

    Args:
        rows: keys, as `codes` returns them, and times.
        actions: keys and times, in the order in which they were written.
        window_s: length of the window.
        is_repeated: actions that do not count.
    """
    (row_keys, row_times), (keys, _) = rows, actions
    starts, ends, numbers = by_key_and_time(rows, (row_keys, row_times + window_s), actions)
    counts = (keys != NO_KEY) & ~is_repeated
    order = np.flatnonzero(counts)
    order = order[np.argsort(numbers[order], kind="stable")]
    first = np.searchsorted(numbers[order], starts, side="left")
    last = np.searchsorted(numbers[order], ends, side="right")
    last[row_keys == NO_KEY] = first[row_keys == NO_KEY]
    size = len(order) + 1
    open_windows = np.cumsum(np.bincount(first, minlength=size) - np.bincount(last, minlength=size))
    is_joined = np.zeros(len(keys), bool)
    is_joined[order] = open_windows[:-1] > 0
    has_row = counts & np.isin(keys, row_keys)
    earliest = _is_after_a_row(starts, row_keys, numbers, keys)
    key_before = np.append(keys[order], NO_KEY)[first - 1]
    return Windows(
        order=order,
        first=first,
        last=last,
        is_joined=is_joined,
        is_early=has_row & ~earliest,
        is_late=has_row & earliest & ~is_joined,
        is_alone=counts & ~has_row,
        has_earlier_only=(first == last) & (key_before == row_keys) & (row_keys != NO_KEY),
    )


def _is_after_a_row(starts: Integers, row_keys: Integers, numbers: Integers, keys: Integers) -> Mask:
    """Returns for each action whether a row of its keys is not later."""
    if not len(starts):
        return np.zeros(len(keys), bool)
    order = np.argsort(starts, kind="stable")
    found = np.searchsorted(starts[order], numbers, side="right") - 1
    is_after: Mask = (found >= 0) & (row_keys[order[np.maximum(found, 0)]] == keys)
    return is_after


def repeated(numbers: Integers, content: Integers) -> Mask:
    """Returns which actions repeat an earlier one with the same keys, time and content.

    Args:
        numbers: numbers of keys and times, as `by_key_and_time` returns them.
        content: content of all other columns, as `codes` returns them.
    """
    order = np.lexsort((content, numbers))
    same = (np.diff(numbers[order]) == 0) & (np.diff(content[order]) == 0)
    result = np.zeros(len(numbers), bool)
    result[order[1:]] = same
    return result


Take = Literal["happened", "count", "sum", "max", "last"]


def taken(found: Windows, take: Take, is_wanted: Mask, values: NDArray[Any] | None = None) -> tuple[NDArray[Any], Mask]:
    """Returns one number for each row, and whether it has one.

    Args:
        found: the windows.
        take: value to return of the actions in a window.
        is_wanted: for each action, whether it counts here: all that have a value, if `values` are given.
        values: values of each action.
    """
    wanted = is_wanted[found.order]
    before = np.concatenate([[0], np.cumsum(wanted)])
    first, last = before[found.first], before[found.last]
    number = last - first
    has_any = number > 0
    everywhere = np.ones(len(number), bool)
    if take == "happened":
        return has_any.astype(np.int64), everywhere
    if take == "count":
        return number, everywhere
    assert values is not None
    in_order = values[found.order[wanted]]
    result = np.zeros(len(number), values.dtype)
    match take:
        case "last":
            result[has_any] = in_order[last[has_any] - 1]
            return result, has_any
        case "max":
            result[has_any] = _reduced(np.maximum, in_order, first[has_any], last[has_any])
            return result, has_any
        case "sum":
            result[has_any] = _reduced(np.add, in_order, first[has_any], last[has_any])
            return result, everywhere


def _reduced(function: np.ufunc, values: NDArray[Any], first: Integers, last: Integers) -> NDArray[Any]:
    """Reduces each range of values by itself: the result does not depend on the other ranges."""
    # Sorted: reduceat also reduces the gaps between ranges, which are then read once.
    order = np.argsort(first, kind="stable")
    ends = np.stack([first[order], last[order]], axis=1).ravel()
    padded = np.concatenate([values, np.zeros(1, values.dtype)])
    result = np.empty(len(first), values.dtype)
    if len(first):
        result[order] = function.reduceat(padded, ends)[::2]
    return result
