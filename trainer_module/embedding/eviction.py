"""Removes expired rows, and rows beyond a table's capacity. Between steps, in NumPy.

Rows are spread over owners, and the rows that leave are those that would leave one owner of all rows. So an eviction
is a generator: it yields counts of this owner's rows, and takes the sums over all owners.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import BOOK_FLOATS, Group
from sangam.schemas.spec.tables import Capacity
from sangam.trainer_module.embedding.bookkeeping import MINUTES_A_DAY, read_books
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.transforms.keys import ID_BITS

_DIGIT_BITS = 16
_DIGITS = 1 << _DIGIT_BITS
_SHIFTS = (48, 32, 16, 0)

Counts = NDArray[np.int64]
_Result = TypeVar("_Result")
Counting = Generator[Counts, Counts, _Result]
"""Yields this owner's counts, takes the sums over all owners, and returns its result."""


def finish(counting: Counting[_Result], total: Callable[[Counts], Counts]) -> _Result:
    """Returns the result; `total` returns the sums over all owners of their counts."""
    try:
        counts = next(counting)
        while True:
            counts = counting.send(total(counts))
    except StopIteration as ended:
        result: _Result = ended.value
        return result


def evict(store: RowStore, *, now: int) -> Counting[None]:
    """Removes rows by their tables' expiry and capacity, slots included, and counts them.

    Rows may be read, written and added between two of its counts, but no others may be removed.

    Args:
        store: this owner's.
        now: minutes since 1970 of the newest event that any rank has trained on.
    """
    if store.admission.sketch is not None:
        store.admission.sketch.age()
    if not store.group.tracks_usage:
        return
    keys = store.in_use(store.keys)
    seen, count = read_books(store.in_use(store.rows, slice(-BOOK_FLOATS, None)))
    going = yield from rows_to_go(store.group, keys, seen, count, now=now)
    for counter, rows_by_tag in (("expired", going.expired), ("evicted", going.evicted)):
        store.counters[counter].assign_add(rows_by_tag)
    remove(store, going.indices + 1)


class Going(NamedTuple):
    """The rows that an eviction removes from this owner.

    Attributes:
        indices: [n] int64, ascending, among all rows.
        expired, evicted: [tags] int64, how many of each table, by age and by capacity.
    """

    indices: NDArray[Any]
    expired: Counts
    evicted: Counts


def rows_to_go(
    group: Group, keys: NDArray[Any], seen: NDArray[Any], count: NDArray[Any], *, now: int
) -> Counting[Going]:
    """Returns the rows to remove, in one pass over the rows of all tables.

    Args:
        group: group of the tables.
        keys: [rows] int64.
        seen: [rows] int32, minutes of the newest event.
        count: [rows] int32, occurrences.
        now: minutes.
    """
    num_tags = max(group.tags.values()) + 1
    # NumPy sorts 16-bit numbers by radix: sorting by table below takes one pass.
    tags = (keys >> ID_BITS).astype(np.uint16)
    oldest, most = np.full(num_tags, -(2**31), np.int32), np.full(num_tags, 2**62)
    for name, table in group.tables.items():
        tag = group.tags[name]
        if table.expire_after_days is not None:
            oldest[tag] = max(now - table.expire_after_days * MINUTES_A_DAY + 1, -(2**31))
        if table.capacity is not None:
            most[tag] = table.capacity.rows
    is_gone = seen < oldest[tags]
    expired = np.bincount(tags[is_gone], minlength=num_tags)
    evicted = np.zeros(num_tags, np.int64)
    surplus = np.maximum((yield np.bincount(tags, minlength=num_tags) - expired) - most, 0)
    crowded = np.flatnonzero(~is_gone & (surplus > 0)[tags])
    crowded = crowded[np.argsort(tags[crowded], kind="stable")]
    ends = np.cumsum(np.bincount(tags[crowded], minlength=num_tags))
    for name, table in group.tables.items():
        tag = group.tags[name]
        if table.capacity is not None and surplus[tag]:
            indices = crowded[ends[tag - 1] : ends[tag]]
            worth = _worth(table.capacity, seen[indices], count[indices])
            least = yield from least_of_all(worth, keys[indices], surplus[tag])
            is_gone[indices[least]] = True
            evicted[tag] = len(least)
    return Going(np.flatnonzero(is_gone), expired, evicted)


def _worth(capacity: Capacity, seen: NDArray[Any], count: NDArray[Any]) -> NDArray[Any]:
    """Returns the sort key of eviction, least first: both numbers of a row in one int64."""
    first, then = (seen, count) if capacity.evict == "least_recent" else (count, seen)
    return (first.astype(np.int64) << 32) + then


def least_of_all(worth: NDArray[Any], keys: NDArray[Any], number: int) -> Counting[NDArray[Any]]:
    """Returns the indices of this owner's rows among the `number` least of all owners.

    The key decides between equals, so that they are always the same. A radix selection: each round counts one digit of
    the rows that are still undecided.

    Args:
        worth: [n] int64.
        keys: [n] int64 of one table, each once over all owners.
        number: from 1 to the rows of all owners.
    """
    taken: list[NDArray[Any]] = []
    undecided = np.arange(len(keys))
    for numbers in (worth ^ np.int64(-(2**63)), keys):  # As unsigned numbers they have the order of the signed ones.
        left = numbers[undecided] if len(undecided) < len(keys) else numbers
        for shift in _SHIFTS:
            digits = left >> shift & (_DIGITS - 1)
            own = np.bincount(digits, minlength=_DIGITS)
            counts = yield own
            ends = np.cumsum(counts)
            edge = int(np.searchsorted(ends, number))
            if own[edge] < len(left):
                taken.append(undecided[digits < edge])
                is_undecided = digits == edge
                undecided, left = undecided[is_undecided], left[is_undecided]
            number -= int(ends[edge] - counts[edge])
            if number == counts[edge]:
                return np.concatenate([*taken, undecided])
    raise AssertionError("a key has two rows")


def remove(store: RowStore, numbers: NDArray[Any]) -> None:
    """Removes rows by number; the last rows move into the gaps.

    Args:
        store: is changed.
        numbers: [n], ascending, each once, none 0.
    """
    if not len(numbers):
        return
    end = int(store.end)
    new_end = end - len(numbers)
    gaps = numbers[numbers < new_end]
    is_gone = np.zeros(end - new_end, bool)
    is_gone[numbers[numbers >= new_end] - new_end] = True
    moved = np.flatnonzero(~is_gone) + new_end
    gone_keys = tf.gather(store.keys, numbers)
    store.index.remove(gone_keys)
    store.keep(tf.constant(gaps, tf.int64))
    for variable in store.by_number:
        variable.scatter_update(tf.IndexedSlices(tf.gather(variable, moved), gaps))
    store.index.insert(tf.gather(store.keys, gaps), tf.constant(gaps[:, None], tf.int64))
    store.mark(tf.range(new_end, end), False)
    store.end.assign(new_end)
    if store.removed is not None:
        store.removed.add(gone_keys.numpy())
