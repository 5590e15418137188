"""Training jobs of benchmarks."""

from pathlib import Path
from typing import Any

from sangam.schemas.contracts.training_job import TrainJob, write_job
from sangam.schemas.spec import RankerSpec, digest


def job_in(folder: Path, ranker: RankerSpec, **fields: Any) -> tuple[Path, TrainJob]:
    """Writes a job whose output, checkpoints and logs are below a folder; returns its file and the job.

    Args:
        folder: folder of the job, created if missing.
        ranker: declaration to train.
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
