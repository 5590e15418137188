"""Removes expired rows, and rows beyond a table's capacity. Between steps, in NumPy."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from schemas.derived.groups import BOOK_FLOATS, Group
from schemas.spec.tables import Capacity
from trainer_module.embedding.bookkeeping import MINUTES_A_DAY, read_books
from trainer_module.embedding.row_store import RowStore, share_of
from trainer_module.transforms.keys import ID_BITS


def evict(store: RowStore, *, now: int, rank: int, ranks: int) -> None:
    """Removes rows by their tables' expiry and capacity, slots included, and counts them.

    Each rank keeps its share of a table's capacity: owners are spread by a hash, so shares fill alike.

    Args:
        store: this rank's.
        now: minutes since 1970 of the newest event that any rank has trained on.
        rank: this one.
        ranks: number of ranks.
    """
    if store.admission.sketch is not None:
        store.admission.sketch.age()
    if not store.group.tracks_usage:
        return
    keys = store.in_use(store.keys)
    seen, count = read_books(store.in_use(store.rows, slice(-BOOK_FLOATS, None)))
    going = rows_to_go(store.group, keys, seen, count, now=now, rank=rank, ranks=ranks)
    for counter, rows_by_tag in (("expired", going.expired), ("evicted", going.evicted)):
        store.counters[counter].assign_add(rows_by_tag)
    remove(store, going.indices + 1)


class Going(NamedTuple):
    """The rows that an eviction removes.

    Attributes:
        indices: [n] int64, ascending, among all rows.
        expired, evicted: [tags] int64, how many of each table, by age and by capacity.
    """

    indices: NDArray[Any]
    expired: NDArray[Any]
    evicted: NDArray[Any]


def rows_to_go(
    group: Group,
    keys: NDArray[Any],
    seen: NDArray[Any],
    count: NDArray[Any],
    *,
    now: int,
    rank: int,
    ranks: int,
) -> Going:
    """Returns the rows to remove, in one pass over the rows of all tables.

    Args:
        group: group of the tables.
        keys: [rows] int64.
        seen: [rows] int32, minutes of the newest event.
        count: [rows] int32, occurrences.
        now: minutes.
        rank: this one.
        ranks: number of ranks.
    """
    num_tags = max(group.tags.values()) + 1
    # NumPy sorts 16-bit numbers by radix: sorting by table below takes one pass.
    tags = (keys >> ID_BITS).astype(np.uint16)
    oldest, most = np.full(num_tags, -(2**31), np.int32), np.full(num_tags, len(keys))
    for name, table in group.tables.items():
        tag = group.tags[name]
        if table.expire_after_days is not None:
            oldest[tag] = max(now - table.expire_after_days * MINUTES_A_DAY + 1, -(2**31))
        if table.capacity is not None:
            most[tag] = share_of(table.capacity.rows, rank, ranks)
    is_gone = seen < oldest[tags]
    expired = np.bincount(tags[is_gone], minlength=num_tags)
    surplus = np.maximum(np.bincount(tags, minlength=num_tags) - expired - most, 0)
    crowded = np.flatnonzero(~is_gone & (surplus > 0)[tags])
    crowded = crowded[np.argsort(tags[crowded], kind="stable")]
    ends = np.cumsum(np.bincount(tags[crowded], minlength=num_tags))
    for name, table in group.tables.items():
        tag = group.tags[name]
        if table.capacity is not None and surplus[tag]:
            indices = crowded[ends[tag - 1] : ends[tag]]
            worth = _worth(table.capacity, seen[indices], count[indices])
            is_gone[indices[least(worth, keys[indices], surplus[tag])]] = True
    return Going(np.flatnonzero(is_gone), expired, surplus)


def _worth(capacity: Capacity, seen: NDArray[Any], count: NDArray[Any]) -> NDArray[Any]:
    """Returns the sort key of eviction, least first: both numbers of a row in one int64."""
    first, then = (seen, count) if capacity.evict == "least_recent" else (count, seen)
    return (first.astype(np.int64) << 32) + then


def least(worth: NDArray[Any], keys: NDArray[Any], number: int) -> NDArray[Any]:
    """Returns the indices of the `number` least; the key decides between equals, so that they are always the same.

    Only rows equal to the last one removed are sorted.
    """
    edge = np.partition(worth, number - 1)[number - 1]
    below, equal = np.flatnonzero(worth < edge), np.flatnonzero(worth == edge)
    return np.concatenate([below, equal[np.argsort(keys[equal])[: number - len(below)]]])


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
    for variable in store.by_number:
        variable.scatter_update(tf.IndexedSlices(tf.gather(variable, moved), gaps))
    store.index.insert(tf.gather(store.keys, gaps), tf.constant(gaps[:, None], tf.int64))
    store.mark(tf.range(new_end, end), False)
    store.end.assign(new_end)
    if store.removed is not None:
        store.removed.add(gone_keys.numpy())
