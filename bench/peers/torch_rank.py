"""One rank of a contestant in PyTorch, on one core; runs in an environment of its own, started by `bench.contest`.

    python -m bench.peers.torch_rank KIND PRECISION RANK RANKS FOLDER CORE

FOLDER has the rank's pool (`ids-RANK.npy`, ...) and gets `result.json` of rank 0, as `bench.rank` writes it.
"""

import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, distributed

from bench.dimensions import BATCH_SIZE_PER_RANK

Step = Callable[[], float]
Batches = list[tuple[Tensor, Tensor, Tensor]]
"""Ids below the cardinality of their feature [batch, features] int64, numbers, labels."""


def main(kind: str, precision: str, rank: str, ranks: str, folder: str, core: str) -> None:
    """Passes over the pool once, then measures a second pass."""
    os.sched_setaffinity(0, {int(core)})
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    place = Path(folder)
    distributed.init_process_group(
        "gloo", init_method=f"file://{place / 'meeting'}", rank=int(rank), world_size=int(ranks)
    )
    batches = _batches(place, rank)
    step = _step(kind, batches, bfloat16=precision == "bfloat16")
    for _ in batches:
        loss = step()
    first_loss, seconds = loss, []
    distributed.barrier()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in batches:
        started = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_SELF)
    if rank == "0":
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        result = {"step_s": seconds, "losses": [first_loss, loss], "cpu_s": cpu_s / len(batches)}
        result["precision"] = precision
        (place / "result.json").write_text(json.dumps(result))
    distributed.barrier()
    # Pipelines and reducers keep threads, which Python's end would meet in any order.
    os._exit(0)


def _batches(folder: Path, rank: str) -> Batches:
    ids, floats, labels = (
        torch.from_numpy(np.load(folder / f"{name}-{rank}.npy")) for name in ("ids", "floats", "labels")
    )
    size = BATCH_SIZE_PER_RANK
    return [
        (ids[start : start + size], floats[start : start + size], labels[start : start + size])
        for start in range(0, len(labels), size)
    ]


def _step(kind: str, batches: Batches, *, bfloat16: bool) -> Step:
    torch.manual_seed(0)
    ahead = itertools.cycle(batches)
    if kind == "torch_ddp":
        from bench.peers.torch_ddp import step_of

        return step_of(ahead, bfloat16=bfloat16)
    from bench.peers import torchrec_sharded

    return torchrec_sharded.step_of(ahead, bfloat16=bfloat16)


if __name__ == "__main__":
    main(*sys.argv[1:])
