"""The whole of a training beside its step alone: `python -m bench.whole_job OUTPUT [--batches 64] [--repeats 3]`.

The workload as files, trained by the launcher of jobs with everything that a job has: a pool of two workers,
validation, progress, report, and in one of two trainings a checkpoint in the last epoch. Beside it, in turn,
`Trainer.steps` over batches in memory, of the same model. The rank has the first core for itself, all else the second.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from bench import results, workload
from bench.contest import AS_LAUNCHED, compete
from bench.jobs import job_in
from bench.workload import BATCH_SIZE_PER_RANK
from bench.workload_files import ROWS_AT_ONCE, Written, write_rows
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.spec import RankerSpec

_EPOCHS, _WORKERS = 3, 2
_HELD_OUT_BATCHES = 4
_POLL_S = 0.2


def main() -> None:
    """Writes the speeds of the last epoch, and their ratios to the step's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--batches", type=int, default=64, help="of an epoch")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--where", nargs="+", default=["in_pool", "ahead"], choices=["in_pool", "ahead"])
    parser.add_argument("--checkpoint", nargs="+", default=["with", "without"], choices=["with", "without"])
    arguments = parser.parse_args()
    batches = arguments.batches
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        declared = _ranker(1)
        train = write_rows(declared, folder / "train", batches * BATCH_SIZE_PER_RANK, _pool)
        held_out = write_rows(declared, folder / "held-out", _HELD_OUT_BATCHES * BATCH_SIZE_PER_RANK, _pool)
        for repeat in range(arguments.repeats):
            (step,) = compete("sangam_horovod", batches=batches)
            # With the other core as busy as the pool makes it: both share the memory and its cache.
            beside, _ = compete("sangam_horovod", trainings=2, batches=batches)
            found.append({"step": round(step.examples_per_s), "step beside another": round(beside.examples_per_s)})
            for where in arguments.where:
                for checkpoint in arguments.checkpoint:
                    every = (_EPOCHS - 1) * batches + batches // 2 if checkpoint == "with" else 1_000_000
                    own = folder / f"{repeat}-{where}-{checkpoint}"
                    last = _last_epoch(own, _ranker(every), where, train, held_out, batches)
                    for name, of in (("of_the_step", step), ("of_the_step_beside_another", beside)):
                        last[name] = round(last["examples_per_s"] / of.examples_per_s, 3)
                    found[-1][f"{where}, {checkpoint} a checkpoint"] = last
            results.write(arguments.output, {"batches": batches, "repeats": found})
    print(arguments.output.read_text())


def _ranker(checkpoint_every: int) -> RankerSpec:
    declared = workload.ranker(
        epochs=_EPOCHS,
        shuffle_buffer=10_000,
        checkpoint={"every_steps": checkpoint_every},
        dense_precision="float32",
    )
    return declared.model_copy(update={"cluster": declared.cluster.model_copy(update={"data_workers": _WORKERS})})


def _pool(seed: int) -> workload.Pool:
    return workload.pool(ROWS_AT_ONCE, seed=seed)


def _last_epoch(
    folder: Path, declared: RankerSpec, where: Any, train: Written, held_out: Written, batches: int
) -> dict[str, Any]:
    """Trains; returns what the report says of the last epoch."""
    file, job = job_in(
        folder,
        declared,
        transform=where,
        train_files=train.files[where],
        num_train_examples=batches * BATCH_SIZE_PER_RANK,
        validation_files=held_out.files[where],
        transform_graph=train.graph,
    )
    _run(file, job)
    report = json.loads(job.report_file.read_text())
    last = report["epochs"][-1]
    return {
        "examples_per_s": round(last["examples"] / last["seconds"]),
        "input_wait": last["input_wait"],
        "checkpoint_blocked_s": report["checkpoint"]["blocked_s"],
    }


def _run(file: Path, job: TrainJob) -> None:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "sangam.trainer_module.launch.launcher",
        str(file),
        str(os.getpid()),
    ]
    with (Path(job.log_dir) / "launcher.log").open("wb") as log:
        launcher = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **AS_LAUNCHED})
    placed: set[int] = set()
    while launcher.poll() is None:
        _place(launcher.pid, placed)
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(_POLL_S)
    if launcher.returncode:
        told = (Path(job.log_dir) / "launcher.log").read_text()[-3000:]
        raise SystemExit(f"bench: the job ended with {launcher.returncode}:\n{told}")


def _place(launcher: int, placed: set[int]) -> None:
    """Gives the rank the first core, and the pool the second."""
    of_rank, of_others = sorted(os.sched_getaffinity(0))[:2]
    for process in psutil.Process(launcher).children(recursive=True):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            log = Path(f"/proc/{process.pid}/fd/1").readlink().stem
            # One that has just been forked has the log of the process that it comes from.
            if log == "nursery" or process.pid in placed:
                continue
            for thread in process.threads():
                os.sched_setaffinity(thread.id, {of_rank if log.startswith("rank-") else of_others})
            placed.add(process.pid)


if __name__ == "__main__":
    main()
