"""What a pull and a push cost a rank and its server, by number of keys: `python -m bench.server_calls OUTPUT`.

Processor milliseconds of one rank and of one server of one core, float32, Adam, rows of 16 floats.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from bench.parameter_server import NUM_ROWS, Remote, processor_s, served, served_ranker
from bench.workload import DIM, keys_of

SIZES = (400, 9_000, 36_000)
_TURNS, _TIMES = 5, 15


def main(output: str) -> None:
    """Writes [rank, server] by number of keys: medians of turns, in which the sizes alternate."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    generator, ids = np.random.default_rng(0), keys_of(np.arange(NUM_ROWS)[:, None])[:, 0]
    ranker = served_ranker(1, "float32")
    found: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
    with served(ranker) as (servers, pids):
        remote = Remote(ranker, servers)
        for keys in np.array_split(ids, 20):
            remote.pull_and_push(remote.request(keys), np.zeros([len(keys), DIM], np.float32))
        requests = {size: remote.request(generator.choice(ids, size, replace=False)) for size in SIZES}
        for _ in range(_TURNS):
            for size in SIZES:
                gradients = np.zeros([size, DIM], np.float32)
                (server,), rank = processor_s(pids), time.process_time()
                for _ in range(_TIMES):
                    remote.pull_and_push(requests[size], gradients)
                own_s, served_s = time.process_time() - rank, processor_s(pids)[0] - server
                found[size].append((own_s / _TIMES * 1e3, served_s / _TIMES * 1e3))
    medians = {size: [statistics.median(part) for part in zip(*of, strict=True)] for size, of in found.items()}
    Path(output).write_text(json.dumps(medians))


if __name__ == "__main__":
    main(*sys.argv[1:])
