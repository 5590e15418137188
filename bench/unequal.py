"""Measures the time that two ranks wait for each other where lists have very different lengths.

    python -m bench.unequal

A history of 1 to 200 ids, log-normal lengths (median 8, mean 19), to which one id attends (DIN); 13 numbers; experts of
64-32. Two ranks of one thread read the examples themselves and train in batches of 64 and 256, epoch by epoch:
examples in their order, and dealt by their number of ids, in turn. Prints what training.json tells.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

_SIZES = (64, 256)
_EPOCHS, _EXAMPLES = 5, 16_384
_MOST_IDS, _IDS = 200, 50_000
_DEALT = (False, True)
_ENCODER = {"kind": "din", "target": "post", "units": [36]}


def main() -> None:
    """Measures; prints a table."""
    from bench.contest import measure

    argparse.ArgumentParser(description=__doc__).parse_args()
    found = measure("bench.unequal", "--rank", ranks=2)
    print("| batch | order: waiting, of the time | dealt | left | examples/s | dealt | fullest rank's ids | dealt | |")
    print("|" + "---|" * 9)
    for size, of_size in found.items():
        plain, dealt = (_medians(of_size[str(int(is_dealt))]) for is_dealt in _DEALT)
        left = dealt[0] / plain[0]
        print(
            f"| {size} | {plain[0]:.1%} | {dealt[0]:.1%} | {left:.2f} | {plain[1]:,.0f} | {dealt[1]:,.0f} | "
            f"{plain[2]:.3f} | {dealt[2]:.3f} | {'met' if left <= 0.5 else 'missed'} |"
        )


def _medians(epochs: list[list[float]]) -> list[float]:
    return [statistics.median(values) for values in zip(*epochs, strict=True)]


def rank_main(output: Path) -> None:
    """Measures as one rank of two; rank 0 writes {batch: {is dealt: [(waiting, examples/s, fullest / mean)]}}."""
    import tensorflow as tf

    from sangam.trainer_module import collectives
    from sangam.trainer_module.input.example_reader import transformed_reader
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.epoch import train_epoch
    from sangam.trainer_module.loop.history import EpochReport
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    rank, ranks = collectives.start()
    together = output.parent / "ranks"
    together.mkdir(exist_ok=True)
    collectives.share_memory(together)
    if rank == 0:
        _write(output.parent)
    collectives.barrier(name="written")
    files = [str(output.parent / name) for name in json.loads((output.parent / "names.json").read_text())]
    results: dict[int, dict[int, list[tuple[float, float, float]]]] = {}
    for size in _SIZES:
        declared = _ranker(size)
        trainer = InStepTrainer(Ranker(declared), rank=rank, ranks=ranks)
        reader = transformed_reader(declared)
        progress = _progress(declared, output.parent, rank, Progress)
        readers = {is_dealt: reader if is_dealt else replace(reader, count_ids=None) for is_dealt in _DEALT}
        results[size] = {int(is_dealt): [] for is_dealt in _DEALT}
        for epoch, is_dealt in itertools.product(range(_EPOCHS), _DEALT):
            batches = own_batches(declared, files, epoch=epoch, rank=rank, ranks=ranks, reader=readers[is_dealt])
            counted: list[int] = []
            report = EpochReport()
            collectives.barrier(name="begin")
            for _ in train_epoch(trainer, _counting(batches, counted), progress, report):
                pass
            of_ranks = collectives.allgather(np.array([counted]), name="counted")
            fullest = float(of_ranks.max(0).mean() / of_ranks.mean())
            if epoch:  # The first one warms up.
                waiting = (report.rank_wait_s or 0.0) / report.seconds
                results[size][int(is_dealt)].append((waiting, report.examples / report.seconds, fullest))
    if rank == 0:
        output.write_text(json.dumps(results))
    collectives.barrier(name="end")
    collectives.stop()
    os._exit(0)  # As a rank of a job does.


def _counting(batches: Any, counted: list[int]) -> Iterator[Any]:
    for batch in batches:
        counted.append(int(batch["lists"].shape[0]))
        yield batch


def _ranker(size: int) -> Any:
    from sangam.schemas.spec import RankerSpec

    document = {
        "name": "unequal",
        "tables": {"posts": {"dim": 16}},
        "features": {
            "post": {"kind": "id", "type": "int", "table": "posts"},
            "history": {
                "kind": "sequence",
                "type": "int",
                "table": "posts",
                "max_length": _MOST_IDS,
                "encoder": _ENCODER,
            },
            **{f"x_{n:02}": {"kind": "numeric", "encoding": {"kind": "standard"}} for n in range(13)},
        },
        "tasks": {"like": {"kind": "binary"}},
        "model": {"kind": "mmoe", "num_experts": 4, "expert_units": [64, 32], "tower_units": [16]},
        "training": {
            "batch_size_per_rank": size,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.001},
            "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
        },
        "cluster": {"ranks": 2, "data_workers": 0},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def _progress(declared: Any, folder: Path, rank: int, make: Any) -> Any:
    from bench.jobs import job_in

    return make(job_in(folder / f"job-{rank}", declared)[1], rank)


def _write(folder: Path) -> None:
    """Writes Transform's examples, and the names of their files."""
    import pyarrow as pa

    from sangam.components.examples.writer import BlockWriter

    generator = np.random.default_rng(5)
    lengths = np.clip(generator.lognormal(np.log(8), 1.4, _EXAMPLES), 1, _MOST_IDS).astype(np.int64)
    tag = np.int64(_ranker(64).table_tags()["posts"]) << 52

    def lists(values: Any, lengths: Any) -> Any:
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), pa.array(values))

    ones = np.ones(_EXAMPLES, np.int64)
    columns = {"history": lists(tag | generator.integers(0, _IDS, lengths.sum()), lengths)}
    columns["post"] = lists(tag | generator.integers(0, _IDS, _EXAMPLES), ones)
    columns |= {f"x_{n:02}": lists(generator.standard_normal(_EXAMPLES).astype(np.float32), ones) for n in range(13)}
    columns["like"] = lists(generator.integers(0, 2, _EXAMPLES).astype(np.float32), ones)
    with BlockWriter(str(folder), None, 0) as writer:
        writer.write(pa.RecordBatch.from_arrays(list(columns.values()), list(columns)))
    (folder / "names.json").write_text(json.dumps(writer.names))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(Path(sys.argv[2]))
    main()
