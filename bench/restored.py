"""Time and memory to restore a checkpoint and to export changed rows: `python -m bench.restored CHECKPOINT OUTPUT`."""

import json
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from bench.scale import on_one_core, only_store, resident_bytes
from bench.workload import ranker
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_snapshot
from sangam.trainer_module.embedding.delta import take_delta
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker

_SHARES_TOUCHED = (0.001, 0.01, 0.1)


def main(checkpoint: str, output: str) -> None:
    """Restores, then exports after more and more rows were touched."""
    on_one_core()
    trainer = InStepTrainer(Ranker(ranker()), rank=0, ranks=1)
    store = only_store(trainer)
    bytes_before = resident_bytes()
    started, read = time.perf_counter(), _bytes_read()
    trainer.restore(read_snapshot(Path(checkpoint), read_manifest(Path(checkpoint)), rank=0, ranks=1))
    rows = store.num_rows
    result = {
        "rows": rows,
        "restore_s": time.perf_counter() - started,
        "read_bytes_per_row": (_bytes_read() - read) / rows,
        "bytes_per_row": (resident_bytes() - bytes_before) / rows,
        "exports": _exports(_tracking(store), rows),
    }
    Path(output).write_text(json.dumps(result))


def _bytes_read() -> int:
    """Returns the bytes that this process has read from files so far."""
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found
    return int(found[1])


def _tracking(store: RowStore) -> RowStore:
    """Returns a store of the same rows that logs its changes."""
    tracking = RowStore(store.group, seed=store.seed, track_changes=True)
    tracking.fill([store.contents()], store.num_rows)
    return tracking


def _exports(store: RowStore, rows: int) -> list[dict[str, float]]:
    """Returns how long exports of more and more rows take."""
    take_delta(store)
    generator, found = np.random.default_rng(0), []
    for share in (0.0, *_SHARES_TOUCHED):
        seconds = []
        for _ in range(3):
            numbers = 1 + generator.choice(rows, int(rows * share), replace=False)
            # As a training step marks them.
            store.mark(tf.constant(numbers), True)
            started = time.perf_counter()
            delta = take_delta(store)
            seconds.append(time.perf_counter() - started)
            assert len(delta.keys) == len(numbers)
        found.append({"touched": int(rows * share), "seconds": statistics.median(seconds)})
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
