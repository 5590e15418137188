"""Seconds of the steps of a run with thousands of features: `python -m bench.wide FOLDER`.

Writes logs and their spec into the folder, and runs `sangam run` on them: by default 1,200 numbers, 600 ids and 200
lists, of which every tenth has an effect on the labels; 20,000 rows to train on and 5,000 to evaluate; PLE behind
DCN-v2 of rank 16, one rank, one data worker, one epoch.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_FIRST_DAY = datetime.date(2024, 3, 1)
_ROWS_OF_DAYS = (10_000, 10_000, 5_000)
"""The last day is evaluated."""
_MISSING = 0.02
_TABLES = 8


def write_logs(folder: Path, *, numbers: int, ids: int, lists: int) -> None:
    """Writes a file a day."""
    rng = np.random.default_rng(1)
    of_number = rng.normal(size=numbers) * (np.arange(numbers) % 10 == 0) / np.sqrt(numbers / 10)
    of_id = rng.normal(size=(ids, 1000)) * (np.arange(ids) % 10 == 0)[:, None] / np.sqrt(ids / 10)
    for number, rows in enumerate(_ROWS_OF_DAYS):
        day = _FIRST_DAY + datetime.timedelta(days=number)
        path = folder / day.isoformat() / "part-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_rows(rng, rows, day, of_number, of_id, lists), path)


def _rows(
    rng: np.random.Generator, size: int, day: datetime.date, of_number: np.ndarray, of_id: np.ndarray, lists: int
) -> pa.Table:
    numbers = rng.normal(size=(size, len(of_number))).astype(np.float32)
    ids = rng.zipf(1.3, size=(size, len(of_id))).clip(max=10**6)
    logit = numbers @ of_number + of_id[np.arange(ids.shape[1]), ids % of_id.shape[1]].sum(axis=1)
    columns = {
        f"n{index}": pa.array(column, mask=rng.random(size) < _MISSING) for index, column in enumerate(numbers.T)
    }
    columns |= {f"i{index}": pa.array(column) for index, column in enumerate(ids.T)}
    for index in range(lists):
        lengths = rng.integers(0, 6, size)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = pa.array(rng.zipf(1.3, offsets[-1]).clip(max=10**6))
        columns[f"l{index}"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
    columns["event_time"] = pa.array(int(midnight.timestamp()) + np.sort(rng.integers(0, 86_400, size)))
    for task, level in (("click", 0.5), ("buy", 2.0)):
        columns[task] = pa.array((logit + rng.logistic(size=size) > level).astype(np.int64))
    return pa.table(columns)


def spec_of(*, numbers: int, ids: int, lists: int) -> dict[str, Any]:
    """Returns the spec of these logs; JSON is YAML."""
    of_ids = {f"i{index}": {"kind": "id"} for index in range(ids)}
    of_lists = {f"l{index}": {"kind": "ids", "combiner": "mean", "max_values": 5} for index in range(lists)}
    of_tables = {
        name: feature | {"type": "int", "table": f"t{index % _TABLES}"}
        for index, (name, feature) in enumerate((of_ids | of_lists).items())
    }
    return {
        "name": "wide",
        "data": {
            "kind": "days",
            "format": "parquet",
            "pattern": "{YYYY}-{MM}-{DD}/*.parquet",
            "train_days": len(_ROWS_OF_DAYS) - 1,
        },
        "tables": {f"t{index}": {"dim": 8} for index in range(_TABLES)},
        "features": {f"n{index}": {"kind": "numeric", "missing": 0} for index in range(numbers)} | of_tables,
        "tasks": {"click": {"kind": "binary"}, "buy": {"kind": "binary"}},
        "model": {"kind": "ple", "interaction": {"kind": "dcn_v2", "num_layers": 2, "rank": 16}},
        "training": {
            "batch_size_per_rank": 512,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.001},
            "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
        },
        "cluster": {"ranks": 1, "data_workers": 1},
        "evaluation": {"confidence": {"replicates": 20}},
        "gates": [{"task": "click", "metric": "auc", "at_least": 0.5}],
        "push": {"kind": "directory", "path": "serving/wide"},
    }


def main() -> None:
    """Prints the run's seconds by step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--numbers", type=int, default=1200)
    parser.add_argument("--ids", type=int, default=600)
    parser.add_argument("--lists", type=int, default=200)
    parser.add_argument("--only-write", action="store_true", help="logs and the spec alone")
    args = parser.parse_args()
    sizes = {"numbers": args.numbers, "ids": args.ids, "lists": args.lists}
    logs, spec, root = args.folder / "logs", args.folder / "wide.yaml", args.folder / "root"
    if not spec.exists():
        write_logs(logs, **sizes)
        spec.write_text(json.dumps(spec_of(**sizes)))
    if args.only_write:
        return
    last = _FIRST_DAY + datetime.timedelta(days=len(_ROWS_OF_DAYS) - 1)
    command = [sys.executable, "-m", "sangam.pipelines.cli", "run", str(spec), "--data", str(logs), "--root", str(root)]
    started = time.time()
    ended = subprocess.run([*command, "--date", last.isoformat(), "--json"], stdout=subprocess.PIPE, check=False)
    seconds = time.time() - started
    if not ended.stdout:
        sys.exit(ended.returncode)
    summary = json.loads(ended.stdout)
    for name, step in summary["steps"].items():
        gib = (step["peak_memory_bytes"] or 0) / 2**30
        print(f"{name}: {step['seconds']:.1f} s, {step['cpu_seconds']:.1f} of the processor, {gib:.1f} GiB")
    training, serving = summary["training"], summary["serving"]
    print(f"{training['examples_per_s']} examples/s, {training['input_wait']:.0%} of the time waiting for input")
    print(f"server ready after {serving['load_s']} s; p50 {serving['p50_ms']} ms, p99 {serving['p99_ms']} ms")
    print(f"whole command: {seconds:.0f} s; {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
