"""Removes unneeded segments, and unneeded files of earlier bases."""

import contextlib
import datetime
from pathlib import Path

from sangam.components.registry import versions
from sangam.schemas.contracts import deltas, segments
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.host.files import remove_folder
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.folder import published
from sangam.trainer_module.checkpoint.manifest import read_manifest


def remove_old_segments(job: TrainJob, now: datetime.datetime) -> list[int]:
    """Removes segments older than `keep_days` that every kept checkpoint has learned from; returns their numbers."""
    assert job.stream is not None
    learned = []
    for checkpoint in published(Path(job.checkpoint_dir)):
        try:
            learned.append(read_manifest(checkpoint).position.epoch)
        except CheckpointError:
            continue  # The resuming trainer reports the error.
    if not learned:
        return []
    before = now - datetime.timedelta(days=job.stream.settings.keep_days)
    return segments.remove_before(Path(job.stream.segments), min(learned), created_before=before)


def remove_old_lineages(training: Path, target: Path, lineage: str) -> list[str]:
    """Removes checkpoints, deltas and full versions of old lineages; returns these lineages.

    The lineage before the current one stays: training resumes from it if the current version is withdrawn.

    Args:
        training: folder of the trainings, by lineage.
        target: folder of versions.
        lineage: current lineage.
    """
    known = {folder.name for parent in (training, target / deltas.FOLDER) for folder in parent.glob("*/")}
    gone = sorted((each for each in known - {lineage} if each.isdecimal()), key=int)[:-1]
    for each in gone:
        for folder in (training / each, deltas.lineage_folder(target, each)):
            with contextlib.suppress(OSError):
                remove_folder(folder)
    for version in versions.versions(target):
        place = deltas.lineage_of(target / version)
        if place is not None and place.number and place.lineage in gone:
            remove_folder(target / version)
    return gone
