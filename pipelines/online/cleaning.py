"""Removes segments that nobody needs any more."""

import datetime
from pathlib import Path

from schemas.contracts import segments
from schemas.contracts.training_job import TrainJob
from trainer_module.checkpoint.files import CheckpointError
from trainer_module.checkpoint.folder import published
from trainer_module.checkpoint.manifest import read_manifest


def remove_old_segments(job: TrainJob, now: datetime.datetime) -> list[int]:
    """Removes segments older than `keep_days` that every kept checkpoint has learned from; returns their numbers."""
    assert job.stream is not None
    learned = []
    for checkpoint in published(Path(job.checkpoint_dir)):
        try:
            learned.append(read_manifest(checkpoint).position.epoch)
        except CheckpointError:
            continue  # Whoever resumes from it says what is wrong.
    if not learned:
        return []
    before = now - datetime.timedelta(days=job.stream.settings.keep_days)
    return segments.remove_before(Path(job.stream.segments), min(learned), created_before=before)
