"""A store's state as arrays, and back."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from sangam.trainer_module.embedding import cut
from sangam.trainer_module.embedding.delta import restore_log, snapshot_of_log
from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.snapshot import Arrays, HeldRows, KeysAndRows, RowsOnDisk, RowsSnapshot


def snapshot_of(store: RowStore) -> RowsSnapshot:
    """Returns a copy of a store's state."""
    return RowsSnapshot(*store.contents(), _extra(store))


def cut_of(store: RowStore) -> HeldRows:
    """Returns a store's state as it is now, to be read while training changes it, until it is told to end.

    Rows on a device are copied.

    Raises:
        ValueError: the last cut has not ended: a bug of the caller.
    """
    if store.device is not None:
        return snapshot_of(store)
    if cut.kept_by(int(store.cut)) >= 0:
        raise ValueError(f"{store.group.name}: there is one cut at a time (got another one)")
    store.cut.assign(cut.begin(store.rows, store.books, store.keys, store.num_rows + 1))
    return cut.RowsAtCut(int(store.cut), store.num_rows, store.group.width, _extra(store))


def _extra(store: RowStore) -> Arrays:
    extra: Arrays = {f"count_{name}": counter.numpy().copy() for name, counter in store.counters.items()}
    if store.admission.sketch is not None:
        extra |= store.admission.sketch.snapshot()
    return extra | snapshot_of_log(store)


def restore(store: RowStore, held: RowsSnapshot | RowsOnDisk, *, rank: int, ranks: int) -> None:
    """Replaces all rows of a store by the rows of a snapshot.

    Args:
        store: store of the same group.
        held: rows of this rank alone; `extra` may hold keys of others.
        rank: this one.
        ranks: number of ranks.

    Raises:
        ValueError: for rows of another width or owner: a bug of the caller.
    """
    store.fill(_checked(store, held, rank, ranks), held.num_rows)
    extra = held.extra
    for name, counter in store.counters.items():
        stored = extra.get(f"count_{name}")
        if stored is not None and stored.shape == counter.shape:
            counter.assign(stored)
    if store.admission.sketch is not None:
        store.admission.sketch.restore(extra)
    restore_log(store, extra, rank=rank, ranks=ranks)


def _checked(store: RowStore, held: RowsSnapshot | RowsOnDisk, rank: int, ranks: int) -> Iterator[KeysAndRows]:
    for keys, rows in held.blocks:
        if rows.shape != (len(keys), store.group.width):
            raise ValueError(f"{store.group.name}: rows {rows.shape} do not fit {store.group.width} floats a row")
        if not np.all(owner_of(tf.constant(keys, tf.int64), ranks).numpy() == rank):
            raise ValueError(f"{store.group.name}: rows of other ranks (this is rank {rank} of {ranks})")
        yield keys, rows
