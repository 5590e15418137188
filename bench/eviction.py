"""Seconds of an eviction: `python -m bench.eviction ROWS TABLES OUTPUT`, on one core.

One group of tables of dimension 16 under Adagrad, each a hundredth over its capacity; every second one drops its least
frequent rows, the others their least recent.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from bench.scale import on_one_core
from sangam.schemas.derived.groups import BOOK_FLOATS, Group
from sangam.schemas.spec.optimizers import Adagrad
from sangam.schemas.spec.tables import Capacity, Table
from sangam.trainer_module.embedding.eviction import evict, finish
from sangam.trainer_module.embedding.row_store import RowStore

_DIM = 16
_OVER = 1.01
_NEWEST_MINUTE = 30_000_000
_ORDERS = ("least_frequent", "least_recent")


def main(num_rows: str, num_tables: str, output: str) -> None:
    """Fills a store, then evicts from it, then once more with nothing left to evict."""
    on_one_core()
    rows, tables = int(num_rows), int(num_tables)
    store = _filled(_group(rows, tables), rows)
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        finish(evict(store, now=_NEWEST_MINUTE), lambda counts: counts)
        seconds.append(time.perf_counter() - started)
    evicted = int(store.counters["evicted"].numpy().sum())
    assert evicted == rows - store.num_rows > 0
    found = {"rows": rows, "tables": tables, "evicted": evicted, "evict_s": seconds[0], "look_s": seconds[1]}
    Path(output).write_text(json.dumps(found))


def _group(rows: int, tables: int) -> Group:
    names = [f"table_{number:04}" for number in range(tables)]
    optimizer = Adagrad(kind="adagrad", learning_rate=0.1)
    return Group(
        name="evicted",
        dim=_DIM,
        tags={name: tag for tag, name in enumerate(names, start=1)},
        tables={
            name: Table(dim=_DIM, capacity=Capacity(rows=int(rows / tables / _OVER), evict=_ORDERS[number % 2]))
            for number, name in enumerate(names)
        },
        optimizers=dict.fromkeys(names, optimizer),
        num_slot_floats=optimizer.slot_floats(_DIM),
    )


def _filled(group: Group, num_rows: int) -> RowStore:
    """Returns a store of rows that are spread over tables, minutes and numbers of occurrences, with many ties."""
    generator = np.random.default_rng(0)
    tags = generator.permutation(np.arange(num_rows) % len(group.tags) + 1)
    keys = (tags << 52) | generator.integers(1, 2**52, num_rows)
    rows = np.zeros([num_rows, group.width], np.float32)
    books = rows[:, -BOOK_FLOATS:].view(np.int32)
    books[:, 0] = _NEWEST_MINUTE - generator.integers(0, 30 * 24 * 60, num_rows)
    books[:, 1] = generator.zipf(1.5, num_rows).clip(max=1_000_000)
    store = RowStore(group, seed=1)
    store.fill([(keys, rows)], num_rows)
    return store


if __name__ == "__main__":
    main(*sys.argv[1:])
