"""One rank of one contestant, on one core: `python -m bench.rank CONTESTANT OUTPUT`. Started by `bench.contest`."""

import json
import os
import resource
import sys
import time
from pathlib import Path

import tensorflow as tf

from bench import ours, rivals
from bench.contestants import CONTESTANTS, Contestant
from bench.workload import BATCH_SIZE_PER_RANK, pool
from trainer_module import collectives

_PROFILED_STEPS = 10


def main(name: str, num_batches: str, output: str, trace: str) -> None:
    """Passes over the pool once, so that graph and tables are warm, then measures a second pass."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rank, ranks = collectives.start()
    # A core each, as far as there are any: the threads that only wait would run on the core of another rank.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    contestant, batches = CONTESTANTS[name], int(num_batches)
    if contestant.shares_memory:
        collectives.share_memory()
    step = _step(contestant, batches, rank, ranks)
    for _ in range(batches):
        loss = step()
    first_loss, seconds, before = loss, [], resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(batches):
        started = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_SELF)
    if trace:
        _profile(step, trace if rank == 0 else "")
    if rank == 0:
        result = {"step_s": seconds, "losses": [first_loss, loss], **_used(before, after, batches)}
        Path(output).write_text(json.dumps(result))
    collectives.stop()


def _profile(step: rivals.Step, trace: str) -> None:
    """Takes further steps, on all ranks; one of them writes the profile."""
    if trace:
        tf.profiler.experimental.start(trace)
    for _ in range(_PROFILED_STEPS):
        step()
    if trace:
        tf.profiler.experimental.stop()


def _step(contestant: Contestant, batches: int, rank: int, ranks: int) -> rivals.Step:
    examples = pool(batches * BATCH_SIZE_PER_RANK, seed=rank)
    bfloat16 = contestant.bfloat16
    match contestant.kind:
        case "sangam":
            return ours.trainer_step(examples, BATCH_SIZE_PER_RANK, rank=rank, ranks=ranks, bfloat16=bfloat16)
        case "tfra_one_table":
            return rivals.tfra_one_table(examples, BATCH_SIZE_PER_RANK, rows=contestant.rows, bfloat16=bfloat16)
        case "tfra_table_per_feature":
            return rivals.tfra_table_per_feature(examples, BATCH_SIZE_PER_RANK, rows=contestant.rows, bfloat16=bfloat16)
        case "keras_fixed_table":
            return rivals.keras_fixed_table(examples, BATCH_SIZE_PER_RANK, rows=contestant.rows, bfloat16=bfloat16)


def _used(before: resource.struct_rusage, after: resource.struct_rusage, steps: int) -> dict[str, float]:
    """Returns processor seconds and page faults of a step, and the most memory that the process has held."""
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    faults = after.ru_minflt - before.ru_minflt
    return {"cpu_s": cpu_s / steps, "page_faults": faults / steps, "peak_bytes": after.ru_maxrss * 1024}


if __name__ == "__main__":
    main(*sys.argv[1:])
