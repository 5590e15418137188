"""The whole of a training beside its step alone: `python -m bench.whole_job OUTPUT [--batches 64] [--repeats 3]`.

The workload as files, trained by the launcher of jobs with everything that a job has: a pool of two workers,
checkpoints, validation, progress, report. Beside it `Trainer.steps` over batches in memory, of the same model, in turn
with it. The rank has the first core for itself, all else has the second: two workers on cores of their own need three.
"""

import argparse
import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench import results
from bench.contest import compete
from bench.jobs import job_in, launched
from bench.workload import BATCH_SIZE_PER_RANK, Pool, pool, ranker
from bench.workload_files import ROWS_AT_ONCE, write_rows
from schemas.contracts.training_job import TrainJob
from schemas.spec.input import Where

_EPOCHS = 3
_WHERE: tuple[Where, ...] = ("in_pool", "ahead")


def _pool(seed: int) -> Pool:
    return pool(ROWS_AT_ONCE, seed=seed)


def main() -> None:
    """Writes both speeds, and their ratio."""
    parser = argparse.ArgumentParser(prog="bench.whole_job")
    parser.add_argument("output", type=Path)
    parser.add_argument("--batches", type=int, default=64, help="of an epoch; a checkpoint falls into the last one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="of the pool")
    arguments = parser.parse_args()
    training = {"epochs": _EPOCHS, "shuffle_buffer": 10_000, "checkpoint": {"every_steps": 5 * arguments.batches // 2}}
    declared = ranker(**training)
    cluster = declared.cluster.model_copy(update={"data_workers": arguments.workers})
    declared = declared.model_copy(update={"cluster": cluster})
    found: dict[str, Any] = {"batches": arguments.batches, "workers": arguments.workers, "repeats": []}
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        num_examples, num_held_out = arguments.batches * BATCH_SIZE_PER_RANK, 4 * BATCH_SIZE_PER_RANK
        written = write_rows(declared, folder / "train", num_examples, _pool)
        held_out = write_rows(declared, folder / "held_out", num_held_out, _pool)
        for repeat in range(arguments.repeats):
            (step,) = compete("sangam", batches=arguments.batches)
            of_repeat: dict[str, Any] = {"step_examples_per_s": round(step.examples_per_s)}
            for where in _WHERE:
                files = {"train_files": written.files[where], "validation_files": held_out.files[where]}
                files |= {"num_train_examples": num_examples, "transform_graph": written.graph}
                job = job_in(folder / f"job-{repeat}-{where}", declared, transform=where, **files)
                of_repeat[where] = _trained(*job, step.examples_per_s)
            found["repeats"].append(of_repeat)
            results.write(arguments.output, found)
    print(arguments.output.read_text())


def _trained(file: Path, job: TrainJob, step_examples_per_s: float) -> dict[str, float]:
    """Runs a job; returns speed and waits of the last epoch, and the seconds to its first step."""
    placed: set[int] = set()
    started, first_step_s = time.monotonic(), 0.0

    def watch(launcher: int) -> float:
        nonlocal first_step_s
        _place(launcher, placed)
        if not first_step_s and job.progress_file.exists():
            first_step_s = time.monotonic() - started
        return 0.5 if first_step_s else 0.01

    report = launched(file, job, watch)
    last = report["epochs"][-1]
    examples_per_s = last["examples"] / last["seconds"]
    return {
        "examples_per_s": round(examples_per_s),
        "of_the_step": round(examples_per_s / step_examples_per_s, 3),
        "input_wait": last["input_wait"],
        "first_step_s": round(first_step_s, 2),
        "checkpoint_blocked_s": report["checkpoint"]["blocked_s"],
        "seconds": report["seconds"],
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
