"""Time and memory by number of rows: `python -m bench.scale ROWS CHECKPOINT OUTPUT`.

Grows a table to ROWS rows as training does, measures its memory and the step over it, and where CHECKPOINT is a path
writes a checkpoint there. `bench.restored` reads it back in a fresh process.
"""

import ctypes
import gc
import itertools
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from bench.ours import batches_of, train
from bench.workload import BATCH_SIZE_PER_RANK, cardinalities, keys_of, pool, ranker
from sangam.schemas.spec import RankerSpec, digest
from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
from sangam.trainer_module.checkpoint.manifest import Manifest
from sangam.trainer_module.checkpoint.writer import Contents, write
from sangam.trainer_module.embedding.cut import RowsAtCut
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker

_WARM_STEPS, _STEPS = 3, 20
_MADE_AT_ONCE = 1 << 17


def main(num_rows: str, checkpoint: str, output: str) -> None:
    """Measures one size."""
    on_one_core()
    wanted = int(num_rows)
    declared = ranker()
    trainer = InStepTrainer(Ranker(declared), rank=0, ranks=1)
    batches = batches_of(
        pool((_WARM_STEPS + _STEPS) * BATCH_SIZE_PER_RANK, num_ids=wanted, seed=0), BATCH_SIZE_PER_RANK
    )
    train(trainer, batches[:_WARM_STEPS])
    store = only_store(trainer)
    keys = _all_keys(wanted)
    rows_before, bytes_before = store.num_rows, resident_bytes()
    _make_rows(store, keys)
    made, grown_bytes = store.num_rows - rows_before, resident_bytes() - bytes_before
    step_s = _seconds_of_steps(trainer, batches[_WARM_STEPS:])
    found = {
        "rows": store.num_rows,
        # Of few rows made here the process's own ups and downs would be most.
        "bytes_per_row": grown_bytes / made if made > 500_000 else None,
        "ideal_bytes_per_row": 8 + 4 * store.group.width,
        "step_s": statistics.median(step_s),
    }
    if checkpoint:
        found |= _write(trainer, declared, Path(checkpoint), batches)
    Path(output).write_text(json.dumps(found))


def on_one_core() -> None:
    """Gives this process one thread on one core, and makes it a job of one rank."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    collectives.start()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def only_store(trainer: InStepTrainer) -> RowStore:
    """Returns the one physical table of the workload."""
    (store,) = trainer.tables.stores.values()
    return store


def _all_keys(num_ids: int) -> NDArray[np.int64]:
    """Returns the keys of all ids of the workload, in no particular order."""
    counts = cardinalities(num_ids)
    keys = [keys_of(np.arange(count)[:, None], first=feature)[:, 0] for feature, count in enumerate(counts)]
    return np.random.default_rng(5).permutation(np.concatenate(keys))


def resident_bytes() -> int:
    """Returns this process's resident memory without its code, after freed memory has gone back to the machine."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def _make_rows(store: RowStore, keys: NDArray[np.int64]) -> None:
    """Makes a row for every key that has none."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def make(keys: tf.Tensor) -> tf.Tensor:
        return store.find_or_make(keys, None, tf.constant(1, tf.int64))

    for start in range(0, len(keys), _MADE_AT_ONCE):
        make(tf.constant(keys[start : start + _MADE_AT_ONCE]))


def _write(trainer: InStepTrainer, declared: RankerSpec, target: Path, batches: Sequence[Batch]) -> dict[str, float]:
    """Writes a checkpoint while training goes on, and one while it stands."""
    contents, cut_s = _contents(trainer, declared)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, target.with_name("step-000000000000"), contents, 0, deadline_s=1.0)
        step_s = _seconds_of_steps(trainer, itertools.cycle(batches), lambda: not writing.done())
        writing.result()
    (rows,) = contents.snapshot.groups.values()
    assert isinstance(rows, RowsAtCut)
    kept = rows.num_kept
    rows.end()
    contents, _ = _contents(trainer, declared)
    started = time.perf_counter()
    write(target, contents, 0, deadline_s=1.0)
    return {
        "cut_s": cut_s,
        "write_s": time.perf_counter() - started,
        "write_beside_s": sum(step_s),
        "step_beside_s": statistics.median(step_s),
        "longest_step_beside_s": max(step_s),
        "kept_rows": kept,
    }


def _contents(trainer: InStepTrainer, declared: RankerSpec) -> tuple[Contents, float]:
    """Returns a checkpoint's contents, and the seconds for which training stands."""
    started = time.perf_counter()
    state = trainer.cut()
    cut_s = time.perf_counter() - started
    manifest = Manifest(
        step=state.step,
        ranks=1,
        spec_digest=digest(declared),
        job_digest="bench",
        seed=declared.training.seed,
        days=(),
        position=Position(),
        groups=group_layouts(declared),
        weights=weight_layouts(trainer.ranker.weights.weights),
    )
    return Contents(manifest, state, np.zeros((0, 2), np.int64), b"{}", {}), cut_s


def _seconds_of_steps(
    trainer: InStepTrainer, batches: Iterable[Batch], is_wanted: Callable[[], bool] = lambda: True
) -> list[float]:
    step_s, started = [], time.perf_counter()
    for result in trainer.steps(batches):
        result.losses_T.numpy()
        step_s.append(time.perf_counter() - started)
        started = time.perf_counter()
        if not is_wanted():
            break
    return step_s


if __name__ == "__main__":
    main(*sys.argv[1:])
