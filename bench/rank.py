"""One rank of a contestant, on one core: `python -m bench.rank CONTESTANT BATCHES OUTPUT`, by `bench.contest`."""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from bench import ours, processes, rivals
from bench.contest import CORE, MEETING
from bench.contestants import CONTESTANTS, Contestant
from bench.served import JOB
from bench.workload import BATCH_SIZE_PER_RANK, Pool, pool, ranker
from sangam.schemas.contracts.training_job import read_job
from sangam.trainer_module import collectives
from sangam.trainer_module.loop.precision import settle


def main(name: str, num_batches: str, output: str) -> None:
    """Passes over the pool once, so that graph and tables are warm, then measures a second pass."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    contestant, batches = CONTESTANTS[name], int(num_batches)
    if contestant.staleness is None:
        rank, ranks = collectives.start()
        if contestant.shares_memory:
            together = Path(output).parent / "together"
            together.mkdir(exist_ok=True)
            collectives.share_memory(together)
        if contestant.kind != "sangam":
            rivals.join()
    else:
        rank, ranks = collectives.place() if "HOROVOD_RANK" in os.environ else (0, 1)
    # A core each: otherwise the threads that only wait would run on the core of the other rank.
    usable = processes.cores()
    os.sched_setaffinity(0, {usable[int(os.environ.get(CORE, rank)) % len(usable)]})
    step, precision = _step(contestant, batches, rank, ranks)
    for _ in range(batches):
        loss = step()
    _meet(os.environ.get(MEETING, ""))
    first_loss, seconds, before = loss, [], resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(batches):
        started = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_SELF)
    if rank == 0:
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        result = {"step_s": seconds, "losses": [first_loss, loss], "cpu_s": cpu_s / batches, "precision": precision}
        Path(output).write_text(json.dumps(result))
    collectives.stop()
    os._exit(0)  # As a rank of a job does: gRPC and TensorFlow keep threads.


def _meet(meeting: str) -> None:
    """Waits for the other trainings that are to be measured at the same time."""
    if not meeting:
        return
    folder, _, trainings = meeting.rpartition(":")
    (Path(folder) / f"ready-{os.getpid()}").touch()
    while len(list(Path(folder).glob("ready-*"))) < int(trainings):
        time.sleep(0.001)


def _step(contestant: Contestant, batches: int, rank: int, ranks: int) -> tuple[rivals.Step, str]:
    """Returns the step, and the precision of its dense part."""
    examples = pool(batches * BATCH_SIZE_PER_RANK, seed=rank)
    if contestant.kind != "sangam":
        return _step_of_rival(contestant, examples), contestant.precision
    place = {"rank": rank, "ranks": ranks}
    if contestant.staleness is not None:
        job = read_job(Path(os.environ[JOB]))
        return ours.served_step(examples, BATCH_SIZE_PER_RANK, job, **place), contestant.precision
    declared = ranker(is_plain=contestant.is_plain, **contestant.training())
    if contestant.precision == "auto":
        declared, _ = settle(declared)
    step = ours.trainer_step(examples, BATCH_SIZE_PER_RANK, declared, **place)
    return step, declared.training.dense_precision


def _step_of_rival(contestant: Contestant, examples: Pool) -> rivals.Step:
    how: dict[str, Any] = {"rows": contestant.rows, "bfloat16": contestant.precision == "bfloat16"}
    match contestant.kind:
        case "tfra_one_table":
            return rivals.tfra_one_table(examples, BATCH_SIZE_PER_RANK, **how)
        case "tfra_table_per_feature":
            return rivals.tfra_table_per_feature(examples, BATCH_SIZE_PER_RANK, **how)
        case "keras_adam" | "keras_adagrad":
            with_adagrad = contestant.kind == "keras_adagrad"
            return rivals.keras_table(examples, BATCH_SIZE_PER_RANK, **how, with_adagrad=with_adagrad)
        case _:
            raise SystemExit(f"bench: {contestant.label} is not in TensorFlow")


if __name__ == "__main__":
    main(*sys.argv[1:])
