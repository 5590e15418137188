"""A store as arrays, and back."""

import numpy as np
import tensorflow as tf

from trainer_module.embedding.delta import restore_log, snapshot_of_log
from trainer_module.embedding.hashing import owner_of
from trainer_module.embedding.row_store import RowStore
from trainer_module.snapshot import Arrays, RowsSnapshot


def snapshot_of(store: RowStore) -> RowsSnapshot:
    """Returns copies of all that a store holds."""
    keys, rows = store.contents()
    extra: Arrays = {f"count_{name}": counter.numpy().copy() for name, counter in store.counters.items()}
    if store.gatekeeper.sketch is not None:
        extra |= store.gatekeeper.sketch.snapshot()
    return RowsSnapshot(keys, rows, extra | snapshot_of_log(store))


def restore(store: RowStore, snapshot: RowsSnapshot, *, rank: int, ranks: int) -> None:
    """Takes a snapshot into a fresh store.

    Args:
        store: of the same group.
        snapshot: rows of this rank alone; `extra` may speak of keys of others.
        rank: this one.
        ranks: number of ranks now.

    Raises:
        ValueError: for rows of another width or owner; a mistake of the caller.
    """
    if snapshot.rows.shape != (len(snapshot.keys), store.group.width):
        raise ValueError(f"{store.group.name}: rows {snapshot.rows.shape} do not fit {store.group.width} floats a row")
    if not np.all(owner_of(tf.constant(snapshot.keys, tf.int64), ranks).numpy() == rank):
        raise ValueError(f"{store.group.name}: rows of other ranks (this is rank {rank} of {ranks})")
    store.fill(snapshot.keys, snapshot.rows)
    for name, counter in store.counters.items():
        stored = snapshot.extra.get(f"count_{name}")
        if stored is not None and stored.shape == counter.shape:
            counter.assign(stored)
    if store.gatekeeper.sketch is not None:
        store.gatekeeper.sketch.restore(snapshot.extra)
    restore_log(store, snapshot.extra, rank=rank, ranks=ranks)
