"""A training job of the demo's ranker, on no files."""

from pathlib import Path
from typing import Any

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import digest
from tests.paths import SPECS


def sample_job(folder: Path, **changes: Any) -> TrainJob:
    """Returns a job whose paths lie in a folder.

    Args:
        folder: of everything that the job leaves.
        changes: replace fields by name.
    """
    ranker = load_spec(SPECS / "short_video.yaml").ranker()
    job = TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        train_files=(),
        transform_graph=str(folder / "transform_graph"),
        model_dir=str(folder / "model"),
        output_dir=str(folder / "output"),
        final_checkpoint=str(folder / "final"),
        checkpoint_dir=str(folder / "checkpoints"),
        log_dir=str(folder / "logs"),
    )
    return job.model_copy(update=changes)
