"""What input costs: reading batches of blocks as a rank without a pool does. `python -m bench.reading OUTPUT`."""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bench.scale import on_one_core
from bench.workload import BATCH_SIZE_PER_RANK, NUM_FLOATS, NUM_IDS, NUM_TASKS, pool, ranker
from components.examples.writer import BlockWriter
from trainer_module.input.local_reader import own_batches

_BATCHES, _WARM = 12, 2


def main(output: str) -> None:
    """Writes the median seconds of a batch."""
    on_one_core()
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        files = _write_examples(directory)
        seconds, started = [], time.perf_counter()
        for _ in own_batches(ranker(), files, epoch=0, rank=0, ranks=1):
            now = time.perf_counter()
            seconds.append(now - started)
            started = now
    Path(output).write_text(json.dumps({"batch_s": statistics.median(seconds[_WARM:])}))


def _write_examples(folder: str) -> list[str]:
    examples = pool(_BATCHES * BATCH_SIZE_PER_RANK, seed=0)
    columns = {f"id_{n:02}": examples.keys[:, n] for n in range(NUM_IDS)}
    columns |= {f"x_{n:02}": examples.floats[:, n] for n in range(NUM_FLOATS)}
    columns |= {f"y_{n}": examples.labels[:, n] for n in range(NUM_TASKS)}
    offsets = pa.array(range(len(examples.keys) + 1), pa.int32())
    with BlockWriter(folder, None, 0) as writer:
        lists = [pa.ListArray.from_arrays(offsets, pa.array(values)) for values in columns.values()]
        writer.write(pa.RecordBatch.from_arrays(lists, list(columns)))
    return [str(Path(folder) / name) for name in writer.names]


if __name__ == "__main__":
    main(*sys.argv[1:])
