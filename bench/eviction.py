"""Seconds of an eviction: `python -m bench.eviction ROWS TABLES DIM OUTPUT`, on one core.

One group of tables of one dimension under Adagrad, each a hundredth over its capacity; every second one drops its least
frequent rows, the others their least recent.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.scale import on_one_core
from sangam.schemas.derived.groups import BOOK_FLOATS, Group
from sangam.schemas.spec.optimizers import Adagrad
from sangam.schemas.spec.tables import Capacity, Table
from sangam.trainer_module.embedding.eviction import evict, finish
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.snapshot import KeysAndRows

_AT_ONCE = 1 << 20
_OVER = 1.01
_NEWEST_MINUTE = 30_000_000
_ORDERS = ("least_frequent", "least_recent")


def main(num_rows: str, num_tables: str, dim: str, output: str) -> None:
    """Fills a store, then evicts from it, then once more with nothing left to evict."""
    on_one_core()
    rows, tables = int(num_rows), int(num_tables)
    store = _filled(_group(rows, tables, int(dim)), rows)
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        finish(evict(store, now=_NEWEST_MINUTE), lambda counts: counts)
        seconds.append(time.perf_counter() - started)
    evicted = int(store.counters["evicted"].numpy().sum())
    assert evicted == rows - store.num_rows > 0
    found = {"rows": rows, "tables": tables, "evicted": evicted, "evict_s": seconds[0], "look_s": seconds[1]}
    Path(output).write_text(json.dumps(found))


def _group(rows: int, tables: int, dim: int) -> Group:
    names = [f"table_{number:04}" for number in range(tables)]
    optimizer = Adagrad(kind="adagrad", learning_rate=0.1)
    return Group(
        name="evicted",
        dim=dim,
        tags={name: tag for tag, name in enumerate(names, start=1)},
        tables={
            name: Table(dim=dim, capacity=Capacity(rows=int(rows / tables / _OVER), evict=_ORDERS[number % 2]))
            for number, name in enumerate(names)
        },
        optimizers=dict.fromkeys(names, optimizer),
        num_slot_floats=optimizer.slot_floats(dim),
    )


def _filled(group: Group, num_rows: int) -> RowStore:
    """Returns a store of rows that are spread over tables, minutes and numbers of occurrences, with many ties."""
    store = RowStore(group, seed=1)
    store.fill(_blocks(group, num_rows), num_rows)
    return store


def _blocks(group: Group, num_rows: int) -> Iterator[KeysAndRows]:
    generator = np.random.default_rng(0)
    for start in range(0, num_rows, _AT_ONCE):
        count = min(_AT_ONCE, num_rows - start)
        tags = generator.permutation((start + np.arange(count)) % len(group.tags) + 1)
        # Ids as they follow each other in a hash's range, each once.
        ids = (np.arange(start, start + count) << 20) | generator.integers(0, 1 << 20, count)
        rows = np.zeros([count, group.width], np.float32)
        books = rows[:, -BOOK_FLOATS:].view(np.int32)
        books[:, 0] = _NEWEST_MINUTE - generator.integers(0, 30 * 24 * 60, count)
        books[:, 1] = generator.zipf(1.5, count).clip(max=1_000_000)
        yield (tags << 52) | ids, rows


if __name__ == "__main__":
    main(*sys.argv[1:])
