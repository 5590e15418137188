"""What input costs on one core: rows that are transformed when they are read, and rows that were transformed before.

`python -m bench.input SPEC ROWS OUTPUT`: random rows of a spec's columns; `wide` is a spec of 2,000 features. OUTPUT
gets, for both:

- `epoch_cpu_us`: microseconds of CPU of a row in each epoch: to read, parse, transform and pack it,
- `start_cpu_s`: seconds of CPU before the second batch, once for each process that reads,
- `bytes`: of a row on disk,

of rows transformed before `map_cpu_us`, what the transform step takes to read, transform and write a row, once; and
`epochs`, the number of epochs after which that is saved again, null if it never is.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from bench.input_rows import ranker_of, write_rows
from bench.scale import on_one_core
from trainer_module.input.example_reader import raw_reader, transformed_reader
from trainer_module.input.local_reader import own_batches


def main(spec: str, rows: str, output: str) -> None:
    """Writes the costs."""
    on_one_core()
    declared = ranker_of(spec)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        written = write_rows(declared, Path(folder), int(rows))
        for where, files in written.files.items():
            started = time.process_time()
            reader = raw_reader(declared, written.graph) if where == "in_pool" else transformed_reader(declared)
            batches = own_batches(declared, files, epoch=0, rank=0, ranks=1, reader=reader)
            found[where] = {**_costs(batches, started), "bytes": round(written.bytes[where], 1)}
    saved_us = found["in_pool"]["epoch_cpu_us"] - found["ahead"]["epoch_cpu_us"]
    found["ahead"]["map_cpu_us"] = round(written.map_cpu_us, 2)
    found["epochs"] = round(written.map_cpu_us / saved_us, 1) if saved_us > 0 else None
    text = json.dumps({"spec": spec, "rows": int(rows), **found}, indent=2)
    Path(output).write_text(text + "\n")
    print(text)


def _costs(batches: tf.data.Dataset, started: float) -> dict[str, float]:
    """Returns the costs of the first two batches since `started`, and of a row in an epoch after the first one."""
    for number, _ in enumerate(batches):
        if number == 1:
            start_cpu_s = time.process_time() - started
    started = time.process_time()
    rows = sum(len(batch["labels"]) for batch in batches)
    cpu_us = (time.process_time() - started) / rows * 1e6
    return {"epoch_cpu_us": round(cpu_us, 2), "start_cpu_s": round(start_cpu_s, 2)}


if __name__ == "__main__":
    main(*sys.argv[1:])
