"""Measures a step of two ranks beside busy processes of others: shared memory against Horovod.

    python -m bench.beside --repeats 2

Ranks as the launcher starts them: one thread, on no core of their own. `workload`'s model, in batches of 4,096 and of
128, where messages are most of a step. The foreign processes never sleep; without any the ranks have a core each.
Transports take turns; each pair of processes measures every number of foreign processes in turn, several times.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TRANSPORTS = ("shared_memory", "horovod")
_STEPS = {4096: 8, 128: 150}
"""Measured steps of each turn, by size of the batch."""
_FOREIGN = (0, 1, 2)
_TURNS, _BATCHES = 3, 4
_AT_MOST = 1.2
"""Longest time beside others, in times of Horovod's."""


def main() -> None:
    """Measures; prints tables."""
    from bench.contest import measure

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1)
    repeats = parser.parse_args().repeats
    found = {transport: [] for transport in _TRANSPORTS}
    for _ in range(repeats):
        for transport in _TRANSPORTS:
            found[transport].append(measure("bench.beside", "--rank", transport, ranks=2))
    print(
        "| batch | foreign | shared memory: ms a step | Horovod | ratio | CPU ms of both | Horovod | |\n|" + "---|" * 8
    )
    for size in map(str, _STEPS):
        for foreign in map(str, _FOREIGN):
            own, others = ([part[size][foreign] for part in found[transport]] for transport in _TRANSPORTS)
            (ms, cpu), (other_ms, other_cpu) = (
                [statistics.median(turn[index] for part in parts for turn in part) for index in (0, 1)]
                for parts in (own, others)
            )
            least, most = (f(turn[0] for part in own for turn in part) for f in (min, max))
            verdict = "met" if ms <= _AT_MOST * other_ms else "missed"
            print(
                f"| {size} | {foreign} | {ms:.1f} ({least:.1f}–{most:.1f}) | {other_ms:.1f} | {ms / other_ms:.2f} | "
                f"{cpu:.1f} | {other_cpu:.1f} | {verdict} |"
            )


def rank_main(transport: str, output: Path) -> None:
    """Measures as one rank of two; rank 0 starts the others' processes, and writes {batch: {foreign: [(ms, CPU)]}}."""
    import tensorflow as tf

    from bench.ours import trainer_step
    from bench.workload import pool, ranker
    from sangam.trainer_module import collectives

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    rank, ranks = collectives.start()
    if transport == "shared_memory":
        folder = output.parent / "ranks"
        folder.mkdir(exist_ok=True)
        collectives.share_memory(folder)
    results: dict[int, dict[int, list[tuple[float, float]]]] = {}
    for size, steps in _STEPS.items():
        declared = ranker(batch_size_per_rank=size)
        step = trainer_step(pool(_BATCHES * size, seed=rank), size, declared, rank=rank, ranks=ranks)
        for _ in range(2 * _BATCHES):
            step()
        results[size] = {foreign: [] for foreign in _FOREIGN}
        for foreign in _FOREIGN * _TURNS:
            with _busy(foreign if rank == 0 else 0):
                collectives.barrier(name="begin")
                step()
                before, started = _cpu_s(), time.perf_counter()
                for _ in range(steps):
                    step()
                seconds, cpu_s = time.perf_counter() - started, _cpu_s() - before
                total_s = float(collectives.allreduce_sum(tf.constant(cpu_s, tf.float64), name="cpu"))
            results[size][foreign].append((seconds / steps * 1e3, total_s / steps * 1e3))
    if rank == 0:
        output.write_text(json.dumps(results))
    collectives.barrier(name="end")
    collectives.stop()
    os._exit(0)  # As a rank of a job does.


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def _busy(number: int) -> Iterator[None]:
    """Runs so many processes that never sleep."""
    started: list[Any] = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(sys.argv[2], Path(sys.argv[3]))
    main()
