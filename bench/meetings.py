"""What a step's collectives take without its computation: `python -m bench.meetings TRANSPORT ROWS WEIGHTS OUTPUT`.

Each rank sends its rows, then its rows' and its dense gradients together, as `in_step.one_step` does; with so many
rows, and with next to none. Started once for each rank by `bench.between_hosts`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from bench.rank import join
from bench.workload import DIM
from sangam.schemas.spec.sync import Transport
from sangam.trainer_module import collectives

_TIMES, _WARM, _IDLE_S = 40, 10, 1.5
_BUSY_S, _APART_S = 0.03, 0.005
_FEW = 64


def main(transport: Transport, rows: str, weights: str, output: str) -> None:
    """Writes seconds of each part, by size, and the share of a core that the transport takes while nothing is sent."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rank, ranks = join(transport, Path(output).parent / "ranks")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    found: dict[str, float] = {}
    for size, floats, dense in (("few", _FEW * ranks, _FEW), ("all", int(rows) * DIM, int(weights))):
        vector, gradient = tf.random.normal([floats]), tf.random.normal([dense])
        splits = tf.constant([floats // ranks] * (ranks - 1) + [floats - floats // ranks * (ranks - 1)])
        for part, call in (("rows", _sender(vector, splits)), ("gradients", _sender(vector, splits, gradient))):
            found[f"{part}_{size}_s"] = _since_the_last(_timed(call, rank))
    before = time.process_time()
    time.sleep(_IDLE_S)
    found["idle_cpu"] = (time.process_time() - before) / _IDLE_S
    collectives.barrier(name="end")
    if rank == 0:
        Path(output).write_text(json.dumps(found))
    collectives.stop()


def _since_the_last(spans: list[tuple[float, float]]) -> float:
    """Returns the median time from the last rank's arrival until every rank has its result.

    Who arrives last may find all messages there; the others still wait for its own, and the next part for them.
    """
    # The clock is the machine's, the same for all ranks; float32 has microseconds of what is left.
    began = float(collectives.allreduce_max(tf.constant([int(spans[0][0])], tf.float32), name="began").numpy()[0])
    last_N2 = collectives.allreduce_max(tf.constant(np.array(spans) - began, tf.float32), name="spans").numpy()
    return float(np.median(last_N2[:, 1] - last_N2[:, 0]))


def _sender(vector: tf.Tensor, splits: tf.Tensor, gradient: tf.Tensor | None = None) -> Callable[[], tf.Tensor]:
    @tf.function(autograph=False)
    def sent() -> tf.Tensor:
        if gradient is None:
            return collectives.send(vector, splits, name="train_embeddings")()[0][:1]
        of_rows, summed = (
            collectives.send(vector, splits, name="gradients"),
            collectives.send_sum(gradient, name="dense"),
        )
        return of_rows()[0][:1] + summed()[:1]

    return sent


def _timed(call: Callable[[], tf.Tensor], rank: int) -> list[tuple[float, float]]:
    """Returns when each call began and ended.

    Between two of them the core is busy, as in a step, and not equally long on all ranks: ranks that meet right after a
    meeting find Horovod's negotiation at its start, and each other in one round of it.
    """
    spans, generator = [], np.random.default_rng(rank)
    for _ in range(_WARM + _TIMES):
        busy_until = time.perf_counter() + _BUSY_S + generator.uniform(0.0, _APART_S)
        while time.perf_counter() < busy_until:
            pass
        started = time.perf_counter()
        call().numpy()
        spans.append((started, time.perf_counter()))
    return spans[_WARM:]


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
