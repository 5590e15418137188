"""Removes rows that are past their time, and those that a table has too many of. Between steps, in NumPy."""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from schemas.groups import BOOK_FLOATS
from schemas.tables import Capacity
from trainer_module.embedding.bookkeeping import MINUTES_A_DAY, read_books
from trainer_module.embedding.row_store import RowStore
from trainer_module.keys import ID_BITS


def evict(store: RowStore, *, now: int, rank: int, ranks: int) -> None:
    """Removes what a store's tables declare, rows with their slots, and counts it.

    Each rank keeps its share of a table's capacity: owners are spread by a hash, so shares fill alike.

    Args:
        store: this rank's.
        now: minutes since 1970 of the newest event that any rank has trained on.
        rank: this one.
        ranks: number of ranks.
    """
    if store.gatekeeper.sketch is not None:
        store.gatekeeper.sketch.age()
    if not store.group.keeps_books:
        return
    keys = store.in_use(store.keys)
    seen, count = read_books(store.in_use(store.rows, slice(-BOOK_FLOATS, None)))
    tags = keys >> ID_BITS
    is_gone = np.zeros(len(keys), bool)
    for name, table in store.group.tables.items():
        tag = store.group.tags[name]
        places = np.flatnonzero(tags == tag)
        if table.expire_after_days is not None:
            is_old = now - seen[places].astype(np.int64) >= table.expire_after_days * MINUTES_A_DAY
            is_gone[places[is_old]] = True
            _count(store, "expired", tag, int(is_old.sum()))
            places = places[~is_old]
        if table.capacity is not None:
            surplus = len(places) - rank_share(table.capacity.rows, rank, ranks)
            if surplus > 0:
                order = _first_to_go(table.capacity, seen[places], count[places], keys[places])
                is_gone[places[order[:surplus]]] = True
                _count(store, "evicted", tag, surplus)
    remove(store, np.flatnonzero(is_gone) + 1)


def rank_share(rows: int, rank: int, ranks: int) -> int:
    """Returns how many of a table's rows a rank may keep; the shares of all ranks add up to `rows`."""
    return rows * (rank + 1) // ranks - rows * rank // ranks


def _first_to_go(capacity: Capacity, seen: NDArray[Any], count: NDArray[Any], keys: NDArray[Any]) -> NDArray[Any]:
    """Returns the order in which rows go; the key decides between equals, so that the order is always the same."""
    if capacity.evict == "least_recent":
        return np.lexsort((keys, count, seen))
    return np.lexsort((keys, seen, count))


def _count(store: RowStore, counter: str, tag: int, rows: int) -> None:
    variable = store.counters[counter]
    variable.assign(tf.tensor_scatter_nd_add(variable, [[tag]], [rows]))


def remove(store: RowStore, numbers: NDArray[Any]) -> None:
    """Removes rows by number: the last ones move into the gaps, so that rows stay without gaps.

    Args:
        store: whose rows.
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
