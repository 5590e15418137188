"""How much faster two ranks train than one process on the same global batches: `make bench`.

Prints the ratio of the two, run in turn several times on the same machine, never a bare time. The second epoch alone
counts: the first holds the tracing of the graph.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from schemas.spec import Ranker, digest
from trainer_module.job import TrainJob
from trainer_module.rendezvous import Rendezvous

NUM_IDS, NUM_FLOATS, NUM_TASKS, VOCABULARY = 20, 13, 3, 200_000


def ranker(ranks: int, global_batch_size: int, units: int) -> Ranker:
    """Returns a ranker of 20 ids of 16 floats, 13 numbers and 3 tasks."""
    features: dict[str, object] = {f"id_{n}": {"kind": "id", "type": "int", "table": "ids"} for n in range(NUM_IDS)}
    features |= {f"x_{n}": {"kind": "numeric"} for n in range(NUM_FLOATS)}
    document = {
        "name": "bench",
        "tables": {"ids": {"dim": 16}},
        "features": features,
        "tasks": {f"y_{n}": {"kind": "binary"} for n in range(NUM_TASKS)},
        "model": {"kind": "mmoe", "num_experts": 4, "expert_units": [units, units // 2], "tower_units": [64]},
        "training": {
            "batch_size_per_rank": global_batch_size // ranks,
            "epochs": 2,
            "shuffle_buffer": 1,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.001},
            "embedding_optimizer": {"kind": "adam", "learning_rate": 0.001},
        },
        "cluster": {"ranks": ranks, "data_workers": 0},
    }
    return Ranker.model_validate_json(json.dumps(document))


def write_examples(path: Path, num_examples: int) -> None:
    """Writes transformed examples with Zipf-popular ids."""
    generator = np.random.default_rng(0)
    ids = np.minimum(generator.zipf(1.2, (num_examples, NUM_IDS)), VOCABULARY) + np.arange(NUM_IDS) * VOCABULARY
    floats = generator.normal(size=(num_examples, NUM_FLOATS)).astype(np.float32)
    labels = (generator.random((num_examples, NUM_TASKS)) < 0.2).astype(np.float32)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(num_examples):
            feature = {f"id_{n}": _ints(ids[row, n]) for n in range(NUM_IDS)}
            feature |= {f"x_{n}": _floats(floats[row, n]) for n in range(NUM_FLOATS)}
            feature |= {f"y_{n}": _floats(labels[row, n]) for n in range(NUM_TASKS)}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def _ints(value: np.int64) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))


def _floats(value: np.float32) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))


def examples_per_s(declared: Ranker, data: Path, directory: Path) -> float:
    """Trains and returns the speed of the second epoch."""
    job = TrainJob(
        ranker=declared,
        spec_digest=digest(declared),
        train_files=(str(data),),
        transform_graph="",
        model_dir=str(directory / "model"),
        output_dir=str(directory / "output"),
        log_dir=str(directory / "logs"),
    )
    job.state_dir.mkdir(parents=True)
    Path(job.log_dir).mkdir()
    job_file = directory / "job.json"
    job_file.write_text(job.model_dump_json())
    ranks = declared.cluster.ranks
    with Rendezvous(ranks) as rendezvous:
        command = [sys.executable, "-m", "trainer_module", str(job_file), str(os.getpid()), ""]
        logs = [(directory / f"rank-{rank}.log").open("wb") for rank in range(ranks)]
        processes = [
            subprocess.Popen(command, env={**os.environ, **rendezvous.environment(rank)}, stderr=log, stdout=log)
            for rank, log in enumerate(logs)
        ]
        codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"a rank failed; see {directory}")
    epoch = json.loads((directory / "output" / "training.json").read_text())["epochs"][1]
    return float(epoch["examples"] / epoch["seconds"])


def main() -> None:
    """Prints a line per size of the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=60_000)
    parser.add_argument("--global-batch-size", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="sangam-bench-"))
    data = directory / "examples.tfrecord"
    write_examples(data, arguments.examples)
    print("| expert units | 2 ranks / 1 process, median | least | most |\n|---|---|---|---|")
    for units in (64, 256):
        ratios = []
        for repeat in range(arguments.repeats):
            alone, together = (
                examples_per_s(
                    ranker(ranks, arguments.global_batch_size, units), data, directory / f"{units}-{repeat}-{ranks}"
                )
                for ranks in (1, 2)
            )
            ratios.append(together / alone)
        print(f"| {units} | {statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
