"""The whole of a training beside its step alone: `python -m bench.whole_job OUTPUT [--batches 64] [--repeats 3]`.

The workload as files, trained by the launcher of jobs with everything that a job has: a pool of two workers,
checkpoints, validation, progress, report. Beside it `Trainer.steps` over batches in memory, of the same model, in turn
with it. The rank has the first core for itself, all else has the second: two workers on cores of their own need three.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from bench.contest import compete
from bench.input_rows import ROWS_AT_ONCE, Written, write_rows
from bench.workload import BATCH_SIZE_PER_RANK, NUM_FLOATS, NUM_IDS, NUM_TASKS, pool, ranker
from schemas.contracts.training_job import TrainJob, write_job
from schemas.spec import RankerSpec, digest
from schemas.spec.input import Where

_EPOCHS = 3
_WHERE: tuple[Where, ...] = ("in_pool", "ahead")
_HELD_OUT_BATCHES = 4


def main() -> None:
    """Writes both speeds, and their ratio."""
    parser = argparse.ArgumentParser(prog="bench.whole_job")
    parser.add_argument("output", type=Path)
    parser.add_argument("--batches", type=int, default=64, help="of an epoch; a checkpoint falls into the last one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="of the pool")
    parser.add_argument("--where", choices=_WHERE, help="where rows are transformed; both where not given")
    arguments = parser.parse_args()
    training = {"epochs": _EPOCHS, "shuffle_buffer": 10_000, "checkpoint": {"every_steps": 5 * arguments.batches // 2}}
    declared = ranker(**training)
    cluster = declared.cluster.model_copy(update={"data_workers": arguments.workers})
    declared = declared.model_copy(update={"cluster": cluster})
    found: dict[str, Any] = {"batches": arguments.batches, "workers": arguments.workers, "repeats": []}
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        num_examples = arguments.batches * BATCH_SIZE_PER_RANK
        written = write_rows(declared, folder / "train", num_examples, _rows)
        held_out = write_rows(declared, folder / "held_out", _HELD_OUT_BATCHES * BATCH_SIZE_PER_RANK, _rows)
        for repeat in range(arguments.repeats):
            step = compete("sangam", ranks=1, batches=arguments.batches)
            of_repeat: dict[str, Any] = {"step_examples_per_s": round(step.examples_per_s)}
            for where in [arguments.where] if arguments.where else _WHERE:
                job = _job(folder / f"job-{repeat}-{where}", declared, where, written, held_out, num_examples)
                of_repeat[where] = _trained(job, step.examples_per_s)
            found["repeats"].append(of_repeat)
            arguments.output.write_text(json.dumps(found, indent=2) + "\n")
    print(arguments.output.read_text())


def _rows(declared: RankerSpec, seed: int) -> pa.RecordBatch:
    """Returns rows of the workload; its keys serve as ids."""
    del declared
    drawn = pool(ROWS_AT_ONCE, seed=seed)
    columns = {f"id_{n:02}": drawn.keys[:, n] for n in range(NUM_IDS)}
    columns |= {f"x_{n:02}": drawn.floats[:, n] for n in range(NUM_FLOATS)}
    columns |= {f"y_{n}": drawn.labels[:, n].astype(np.int64) for n in range(NUM_TASKS)}
    ends = pa.array(np.arange(ROWS_AT_ONCE + 1), pa.int32())
    lists = [pa.ListArray.from_arrays(ends, pa.array(np.ascontiguousarray(values))) for values in columns.values()]
    return pa.RecordBatch.from_arrays(lists, list(columns))


def _job(
    folder: Path, declared: RankerSpec, where: Where, written: Written, held_out: Written, num_examples: int
) -> TrainJob:
    for name in ("output", "checkpoints", "logs"):
        (folder / name).mkdir(parents=True)
    job = TrainJob(
        ranker=declared,
        spec_digest=digest(declared),
        transform=where,
        train_files=written.files[where],
        num_train_examples=num_examples,
        validation_files=held_out.files[where],
        transform_graph=written.graph,
        model_dir="",
        output_dir=str(folder / "output"),
        final_checkpoint=str(folder / "final"),
        checkpoint_dir=str(folder / "checkpoints"),
        log_dir=str(folder / "logs"),
    )
    write_job(folder / "job.json", job)
    return job


def _trained(job: TrainJob, step_examples_per_s: float) -> dict[str, float]:
    """Runs a job; returns what its report says of the last epoch, and how long it took to its first step."""
    folder, started, first_step_s = Path(job.log_dir).parent, time.monotonic(), 0.0
    command = [sys.executable, "-m", "trainer_module.launch.launcher", str(folder / "job.json"), str(os.getpid())]
    with (folder / "launch.log").open("wb") as log:
        launcher = subprocess.Popen(command, stdout=log, stderr=log)
    placed: set[int] = set()
    while launcher.poll() is None:
        _place(launcher.pid, placed)
        if not first_step_s and job.progress_file.exists():
            first_step_s = time.monotonic() - started
        time.sleep(0.01 if not first_step_s else 0.5)
    if launcher.returncode:
        raise SystemExit(
            f"bench: the job ended with {launcher.returncode}:\n{(folder / 'launch.log').read_text()[-3000:]}"
        )
    report = json.loads(job.report_file.read_text())
    last = report["epochs"][-1]
    examples_per_s = last["examples"] / last["seconds"]
    return {
        "examples_per_s": round(examples_per_s),
        "of_the_step": round(examples_per_s / step_examples_per_s, 3),
        "input_wait": last["input_wait"],
        "first_step_s": round(first_step_s, 2),
        "whole_examples_per_s": report["examples_per_s"],
        "checkpoints": report["checkpoint"]["written"],
        "checkpoint_blocked_s": report["checkpoint"]["blocked_s"],
        "seconds": report["seconds"],
        "median_epoch_s": statistics.median(epoch["seconds"] for epoch in report["epochs"]),
    }


def _place(launcher: int, placed: set[int]) -> None:
    """Gives the rank the first core, and the pool the second, before they have threads."""
    of_rank, of_others = sorted(os.sched_getaffinity(0))[:2]
    for process in psutil.Process(launcher).children():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            log = Path(f"/proc/{process.pid}/fd/1").readlink().stem
            # One that has just been forked has the log of the process that it comes from.
            if log != "nursery" and process.pid not in placed:
                process.cpu_affinity([of_rank if log.startswith("rank-") else of_others])
                placed.add(process.pid)


if __name__ == "__main__":
    main()
