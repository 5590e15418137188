"""Removes unneeded segments, and unneeded files of earlier bases."""

import contextlib
import datetime
from collections.abc import Sequence
from pathlib import Path

from sangam.components.registry import shadow, versions
from sangam.schemas.contracts import deltas, segments
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.host.files import remove_folder
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.folder import published
from sangam.trainer_module.checkpoint.manifest import read_manifest


def remove_old_segments(jobs: Sequence[TrainJob], now: datetime.datetime) -> list[int]:
    """Removes segments older than `keep_days` that every kept checkpoint of every training has learned from.

    Args:
        jobs: trainings on the same segments, the live version's first.
        now: present time, UTC.

    Returns:
        The numbers of the segments.
    """
    stream = jobs[0].stream
    assert stream is not None
    learned = [_learned_by_all(job) for job in jobs]
    before = now - datetime.timedelta(days=stream.settings.keep_days)
    return segments.remove_before(Path(stream.segments), min(learned), created_before=before)


def _learned_by_all(job: TrainJob) -> int:
    """Returns the last segment that every checkpoint of a training has learned from; 0 without a checkpoint."""
    learned = []
    for checkpoint in published(Path(job.checkpoint_dir)):
        try:
            learned.append(read_manifest(checkpoint).position.epoch)
        except CheckpointError:
            continue  # The resuming trainer reports the error.
    return min(learned, default=0)


def remove_old_lineages(training: Path, target: Path, lineage: str) -> list[str]:
    """Removes checkpoints, deltas and full versions of old lineages, and of those dropped from the shadow.

    The lineage before the current one stays: training resumes from it if the current version is withdrawn. So does the
    one in the shadow.

    Args:
        training: folder of the trainings, by lineage.
        target: folder of versions.
        lineage: current lineage.

    Returns:
        The lineages, lowest first.
    """
    known = {folder.name for parent in (training, target / deltas.FOLDER) for folder in parent.glob("*/")}
    kept = {lineage, *versions.numbers_in_shadow(target)}
    others = sorted((each for each in known - kept if each.isdecimal()), key=int)
    dropped = [each for each in others if shadow.is_dropped(target, each)]
    before = [each for each in others if each not in dropped]
    gone = sorted([*dropped, *before[:-1]], key=int)
    for each in gone:
        for folder in (training / each, deltas.lineage_folder(target, each)):
            with contextlib.suppress(OSError):
                remove_folder(folder)
    for version in versions.versions(target):
        place = deltas.lineage_of(target / version)
        if place is not None and place.number and place.lineage in gone:
            remove_folder(target / version)
    return gone
