"""What input costs: parsing batches from TFRecord as a rank without a pool does. `python -m bench.reading OUTPUT`."""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import tensorflow as tf

from bench.scale import on_one_core
from bench.workload import BATCH_SIZE_PER_RANK, NUM_FLOATS, NUM_IDS, NUM_TASKS, pool, ranker
from trainer_module.input.local_reader import own_batches

_BATCHES, _WARM = 12, 2


def main(output: str) -> None:
    """Writes the median seconds of a batch."""
    on_one_core()
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        path = Path(directory) / "examples.tfrecord"
        _write_examples(path)
        seconds, started = [], time.perf_counter()
        for _ in own_batches(ranker(), [str(path)], epoch=0, rank=0, ranks=1):
            now = time.perf_counter()
            seconds.append(now - started)
            started = now
    Path(output).write_text(json.dumps({"batch_s": statistics.median(seconds[_WARM:])}))


def _write_examples(path: Path) -> None:
    examples = pool(_BATCHES * BATCH_SIZE_PER_RANK, seed=0)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for keys, floats, labels in zip(examples.keys, examples.floats, examples.labels, strict=True):
            feature = {f"id_{n:02}": tf.train.Feature(int64_list={"value": [keys[n]]}) for n in range(NUM_IDS)}
            feature |= {f"x_{n:02}": tf.train.Feature(float_list={"value": [floats[n]]}) for n in range(NUM_FLOATS)}
            feature |= {f"y_{n}": tf.train.Feature(float_list={"value": [labels[n]]}) for n in range(NUM_TASKS)}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
