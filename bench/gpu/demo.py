"""Trains and exports the demo's packed training job on this machine: `python -m bench.gpu.demo PACKED FOLDER`.

Ingestion, Transform and the gates run where the job was packed; what is trained here is the job's ranker, by one rank
that reads the files itself. Without a GPU a second logical CPU is the accelerator.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sangam.schemas.contracts.training_job import TrainJob, read_job

_ROOT = "@ROOT@"


def main(packed: str, folder: str) -> None:
    """Trains, exports, and prints what was learned."""
    place = Path(folder).absolute()
    shutil.copytree(packed, place, dirs_exist_ok=True)
    document = json.loads((place / "job.json").read_text().replace(_ROOT, str(place / "root")))
    document["ranker"]["cluster"] |= {"ranks": 1, "data_workers": 0}
    outputs = ("model_dir", "output_dir", "checkpoint_dir", "log_dir")
    document |= {name: str(place / name) for name in (*outputs, "final_checkpoint")}
    for name in outputs:
        (place / name).mkdir(exist_ok=True)
    job = TrainJob.model_validate_json(json.dumps(document))
    file = place / "job.json"
    file.write_text(job.model_dump_json())
    _run("sangam.trainer_module", str(file), str(os.getpid()), "", "0")
    _run("sangam.trainer_module.export", str(file), str(os.getpid()))
    print(f"gpu: {_told(read_job(file))}")


def _run(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], check=False)
    if done.returncode:
        sys.exit(f"gpu: {command[0]}: exit code {done.returncode}")


def _told(job: TrainJob) -> str:
    report: dict[str, Any] = json.loads(job.report_file.read_text())
    last = report["epochs"][-1]
    return f"demo: {last['examples']:,} examples in {last['seconds']:.1f} s, loss {last['mean_loss']}, {job.model_dir}"


if __name__ == "__main__":
    main(*sys.argv[1:3])
