"""Training jobs of benchmarks: the file that a launcher reads, and a launch."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas.contracts.training_job import TrainJob, write_job
from schemas.spec import RankerSpec, digest


def job_in(folder: Path, ranker: RankerSpec, **fields: Any) -> tuple[Path, TrainJob]:
    """Writes a job whose output, checkpoints and logs are below a folder; returns its file and the job.

    Args:
        folder: of the job; made where it is missing.
        ranker: to train.
        fields: other fields of the job, and those that differ.
    """
    for name in ("output", "checkpoints", "logs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    defaults: dict[str, Any] = {
        "train_files": (),
        "transform_graph": "",
        "model_dir": "",
        "output_dir": str(folder / "output"),
        "final_checkpoint": str(folder / "final"),
        "checkpoint_dir": str(folder / "checkpoints"),
        "log_dir": str(folder / "logs"),
    }
    job = TrainJob(ranker=ranker, spec_digest=digest(ranker), **{**defaults, **fields})
    write_job(folder / "job.json", job)
    return folder / "job.json", job


def launched(file: Path, job: TrainJob, watch: Callable[[int], float] | None = None) -> dict[str, Any]:
    """Runs a job by its launcher; returns its report.

    Args:
        file: of the job.
        job: the same.
        watch: called with the launcher's process number until the job ends; returns seconds until the next call.
    """
    command = [sys.executable, "-m", "trainer_module.launch.launcher", str(file), str(os.getpid())]
    log = file.with_name("launch.log")
    with log.open("wb") as output:
        launcher = subprocess.Popen(command, stdout=output, stderr=output)
    while launcher.poll() is None:
        time.sleep(watch(launcher.pid) if watch else 0.1)
    if launcher.returncode:
        raise SystemExit(f"bench: the job ended with {launcher.returncode}:\n{log.read_text()[-3000:]}")
    report: dict[str, Any] = json.loads(job.report_file.read_text())
    return report
