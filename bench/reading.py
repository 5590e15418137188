"""Seconds in which a rank without a pool reads a batch from blocks: `python -m bench.reading OUTPUT`."""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.scale import on_one_core
from bench.workload import BATCH_SIZE_PER_RANK, pool, ranker
from bench.workload_files import batch_of
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
    with BlockWriter(folder, None, 0) as writer:
        writer.write(batch_of(pool(_BATCHES * BATCH_SIZE_PER_RANK, seed=0)))
    return [str(Path(folder) / name) for name in writer.names]


if __name__ == "__main__":
    main(*sys.argv[1:])
