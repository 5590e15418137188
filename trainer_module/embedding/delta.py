"""The changes of a store since the last export, for a store that tracks them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.embedding.removed_keys import RemovedKeys
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.snapshot import Arrays

_TOUCHED, _REMOVED, _LOST = "keys_touched", "keys_removed", "sum_removed_are_lost"


@dataclass(frozen=True)
class Delta:
    """Changes: first remove, then upsert.

    Attributes:
        keys: keys of created or updated rows, [n] int64.
        embeddings: [n, dim] float32, current values.
        removed: [m] int64, keys whose rows were removed.
        needs_full_export: more rows were removed than the log holds, or the log has a gap: the other fields are empty,
            and all rows must be exported before the next delta.
    """

    keys: NDArray[Any]
    embeddings: NDArray[Any]
    removed: NDArray[Any]
    needs_full_export: bool


def take_delta(store: RowStore) -> Delta:
    """Returns a store's changes since the last call, and forgets them.

    It takes time for the touched rows, and to read one flag a row: about a millisecond for ten million.
    """
    removed = _log(store)
    numbers = _touched_numbers(store)
    told = numbers[:0] if removed.are_lost else numbers
    delta = Delta(
        keys=tf.gather(store.keys, told).numpy(),
        embeddings=tf.gather(store.rows, told)[:, : store.group.dim].numpy(),
        removed=_gone(store, removed),
        needs_full_export=removed.are_lost,
    )
    store.mark(tf.constant(numbers), False)
    removed.clear()
    return delta


def _log(store: RowStore) -> RemovedKeys:
    if store.removed is None:
        raise ValueError(f"{store.group.name}: changes are not tracked (got track_changes=False)")
    return store.removed


def _gone(store: RowStore, removed: RemovedKeys) -> NDArray[Any]:
    """Returns the removed keys that have no new row: [m] int64, ascending."""
    keys = removed.keys()
    gone: NDArray[Any] = keys[store.find(tf.constant(keys)).numpy() == 0]
    return gone


def _touched_numbers(store: RowStore) -> NDArray[Any]:
    assert store.touched is not None
    numbers: NDArray[Any] = np.flatnonzero(store.in_use(store.touched)) + 1
    return numbers


def snapshot_of_log(store: RowStore) -> Arrays:
    """Returns the log's arrays for a checkpoint; none where changes are not tracked."""
    if store.removed is None:
        return {}
    return {
        _TOUCHED: tf.gather(store.keys, _touched_numbers(store)).numpy(),
        _REMOVED: _gone(store, store.removed),
        _LOST: np.array([store.removed.are_lost], np.int64),
    }


def restore_log(store: RowStore, extra: Arrays, *, rank: int, ranks: int) -> None:
    """Restores the log of a store that has just been filled; ignores keys of other ranks.

    Args:
        store: may keep no log.
        extra: arrays of a checkpoint; without a log among them, the next export must be a full one.
        rank: this one.
        ranks: number of ranks.
    """
    if store.removed is None:
        return
    store.removed.clear()
    if _LOST not in extra or extra[_LOST].any():
        store.removed.lose()
        return
    is_mine = owner_of(tf.constant(extra[_REMOVED], tf.int64), ranks).numpy() == rank
    store.removed.add(extra[_REMOVED][is_mine])
    numbers = store.find(tf.constant(extra[_TOUCHED], tf.int64)).numpy()
    store.mark(tf.constant(numbers[numbers > 0]), True)
