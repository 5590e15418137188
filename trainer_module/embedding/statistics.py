"""Statistics of each table over all owners of its rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.trainer_module import collectives
from sangam.trainer_module.embedding.row_store import COUNTERS, RowStore
from sangam.trainer_module.transforms.keys import ID_BITS

BYTES_BESIDE_ROW = 8 + 16
"""A row's key, and its entry in the index without the index's free slots."""
NORM_EDGES = np.logspace(-3, 2, 26)
"""Edges of the bins that count Euclidean norms of rows; the outermost bins are open."""
_AT_ONCE = 1 << 18
"""Rows whose norms are computed at once: 16 MB of 16 numbers each."""


def statistics(stores: Mapping[str, RowStore], *, rank: int, ranks: int) -> dict[str, dict[str, Any]]:
    """Returns numbers by table over all ranks, see `by_table`. All ranks call it together."""
    counts = {}
    for name, store in stores.items():
        own = counted(store)
        local = np.zeros([ranks, *own.shape], np.int64)
        local[rank] = own
        counts[name] = collectives.allreduce_sum(tf.constant(local), name=f"statistics_{name}").numpy()
    return by_table({name: store.group for name, store in stores.items()}, counts)


def counted(store: RowStore) -> NDArray[np.int64]:
    """Returns a store's rows and, below, its counters and its rows by norm, by table: [1 + counters + bins, tags]."""
    num_tags = max(store.group.tags.values()) + 1
    tags = store.in_use(store.keys) >> ID_BITS
    rows = np.bincount(tags, minlength=num_tags)
    return np.stack([rows, *(store.counters[name].numpy() for name in COUNTERS), *_by_norm(store, tags, num_tags)])


def _by_norm(store: RowStore, tags: NDArray[Any], num_tags: int) -> NDArray[np.int64]:
    bins = len(NORM_EDGES) - 1
    counts = np.zeros(bins * num_tags, np.int64)
    for start in range(0, len(tags), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        numbers = tf.range(1 + start, 1 + min(start + _AT_ONCE, len(tags)), dtype=tf.int64)
        rows = tf.gather(store.rows, numbers)[:, : store.group.dim].numpy()
        at = np.searchsorted(NORM_EDGES[1:-1], np.linalg.norm(rows, axis=1))
        counts += np.bincount(at * num_tags + tags[part], minlength=bins * num_tags)
    return counts.reshape(bins, num_tags)


class TableCounts:
    """Rows of each table, and counts of admitted, rejected and removed keys, from a few counters."""

    def __init__(self, stores: Mapping[str, RowStore]):
        """Counts the rows once; reads all keys."""
        self._stores = stores
        self._before = {name: _rows_by_tag(store) - _change(store) for name, store in stores.items()}

    def read(self) -> dict[str, dict[str, int]]:
        """Returns `rows`, `admitted`, `rejected`, `evicted`, `expired` of the stores, by table."""
        tables = {}
        for name, store in self._stores.items():
            counted = {key: store.counters[key].numpy() for key in ("admitted", "rejected", "evicted", "expired")}
            rows = self._before[name] + counted["admitted"] - counted["evicted"] - counted["expired"]
            for table, tag in store.group.tags.items():
                tables[table] = {"rows": int(rows[tag]), **{key: int(each[tag]) for key, each in counted.items()}}
        return tables


def _rows_by_tag(store: RowStore) -> NDArray[np.int64]:
    num_tags, end = max(store.group.tags.values()) + 1, store.num_rows + 1
    counts = np.zeros(num_tags, np.int64)
    for start in range(1, end, _AT_ONCE):
        keys = tf.gather(store.keys, tf.range(start, min(start + _AT_ONCE, end), dtype=tf.int64)).numpy()
        counts += np.bincount(keys >> ID_BITS, minlength=num_tags)
    return counts


def _change(store: RowStore) -> NDArray[np.int64]:
    """Returns the change of the number of rows since the store was created, by tag."""
    counters = store.counters
    change: NDArray[np.int64] = (counters["admitted"] - counters["evicted"] - counters["expired"]).numpy()
    return change


def by_table(groups: Mapping[str, Group], counts: Mapping[str, NDArray[np.int64]]) -> dict[str, dict[str, Any]]:
    """Returns the statistics of each table.

    For each table: `rows`; `bytes` of these, slots included; `admitted`, `rejected`, `evicted`, `expired` as
    `row_store.COUNTERS` says; `load_max_over_mean`, rows of the fullest owner over the mean; `unique_share`, unique ids
    of a rank's batch over all its ids; None where the divisor is 0; `norms`, rows between two of `NORM_EDGES`: [bins].

    Args:
        groups: groups of tables.
        counts: `counted` of each owner of rows, by group: [owners, 1 + counters + bins, tags].
    """
    tables = {}
    for name, group in groups.items():
        rows_by_owner, sums = counts[name][:, 0], counts[name][:, 1:].sum(0)
        totals, norms = dict(zip(COUNTERS, sums, strict=False)), sums[len(COUNTERS) :]
        for table, tag in group.tags.items():
            rows = rows_by_owner[:, tag]
            asked = totals["asked"][tag]
            tables[table] = {
                "norms": norms[:, tag].tolist(),
                "rows": int(rows.sum()),
                "bytes": int(rows.sum()) * (4 * group.width + BYTES_BESIDE_ROW),
                **{counter: int(totals[counter][tag]) for counter in ("admitted", "rejected", "evicted", "expired")},
                "load_max_over_mean": round(float(rows.max() / rows.mean()), 4) if rows.sum() else None,
                "unique_share": round(float(totals["unique"][tag] / asked), 4) if asked else None,
            }
    return dict(sorted(tables.items()))
