"""Statistics of each table over all ranks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer_module import collectives
from trainer_module.embedding.row_store import COUNTERS, RowStore
from trainer_module.transforms.keys import ID_BITS

BYTES_BESIDE_ROW = 8 + 16
"""A row's key, and its entry in the index without the index's free slots."""


def statistics(stores: Mapping[str, RowStore], *, rank: int, ranks: int) -> dict[str, dict[str, Any]]:
    """Returns numbers by table. All ranks call it together.

    For each table: `rows`; `bytes` of these, slots included; `admitted`, `rejected`, `evicted`, `expired` as
    `row_store.COUNTERS` says; `load_max_over_mean`, rows of the fullest rank over the mean; `unique_share`, unique ids
    of a rank's batch over all its ids; None where the divisor is 0.
    """
    by_table = {}
    for store in stores.values():
        group = store.group
        num_tags = max(group.tags.values()) + 1
        local = np.zeros([ranks, num_tags])
        local[rank] = np.bincount(store.in_use(store.keys) >> ID_BITS, minlength=num_tags)
        counted = np.stack([store.counters[name].numpy() for name in COUNTERS])
        message = tf.constant(np.concatenate([local, counted]), tf.float64)
        totals = collectives.allreduce_sum(message, name=f"statistics_{group.name}").numpy()
        rows_by_rank, counts = totals[:ranks], dict(zip(COUNTERS, totals[ranks:], strict=True))
        for table, tag in group.tags.items():
            rows = rows_by_rank[:, tag]
            asked = counts["asked"][tag]
            by_table[table] = {
                "rows": int(rows.sum()),
                "bytes": int(rows.sum()) * (4 * group.width + BYTES_BESIDE_ROW),
                **{name: int(counts[name][tag]) for name in ("admitted", "rejected", "evicted", "expired")},
                "load_max_over_mean": round(float(rows.max() / rows.mean()), 4) if rows.sum() else None,
                "unique_share": round(float(counts["unique"][tag] / asked), 4) if asked else None,
            }
    return dict(sorted(by_table.items()))
