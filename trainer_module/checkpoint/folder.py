"""Where a job's checkpoints lie: `step-000000001234`, hidden while they are written or removed."""

import os
import re
import shutil
from pathlib import Path

from trainer_module.checkpoint.files import CheckpointError
from trainer_module.checkpoint.manifest import read_manifest

_STEP = re.compile(r"step-\d{12}")


def step_folder(directory: Path, step: int) -> Path:
    """Returns where the checkpoint of a step is published."""
    return directory / f"step-{step:012d}"


def being_written(target: Path) -> Path:
    """Returns where a checkpoint lies until it is whole."""
    return target.with_name(f".{target.name}.tmp")


def _being_removed(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def published(directory: Path) -> list[Path]:
    """Returns all checkpoints, oldest step first."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if _STEP.fullmatch(path.name))


def newest(directory: Path, job_digest: str) -> Path | None:
    """Returns the last checkpoint if it is of this job."""
    found = published(directory)
    return found[-1] if found and read_manifest(found[-1]).job_digest == job_digest else None


def publish(target: Path) -> None:
    """Makes a whole checkpoint visible: one rename. One of the same name that lies there goes first."""
    if target.exists():
        remove(target)
    os.rename(being_written(target), target)
    sync(target.parent)


def prune(directory: Path, keep: int) -> None:
    """Removes all checkpoints but the last `keep`, and those of the best epochs that these may end with."""
    found = published(directory)
    best = {step_folder(directory, step) for step in map(_best_step, found[-keep:]) if step is not None}
    for path in found[:-keep]:
        if path not in best:
            remove(path)


def _best_step(path: Path) -> int | None:
    try:
        return read_manifest(path).best_step
    except CheckpointError:
        # Nobody can go on from it.
        return None


def remove(path: Path) -> None:
    """Removes a checkpoint; it is hidden first, so that half of one is never taken for a whole one."""
    hidden = _being_removed(path)
    shutil.rmtree(hidden, ignore_errors=True)
    os.rename(path, hidden)
    shutil.rmtree(hidden)


def clear(directory: Path, job_digest: str) -> list[Path]:
    """Removes what a dead job has left half written or half removed, and checkpoints of other jobs.

    Returns:
        The other jobs' checkpoints that were removed.
    """
    if not directory.is_dir():
        return []
    for path in directory.glob(".step-*"):
        shutil.rmtree(path)
    others = [path for path in published(directory) if _is_of_another(path, job_digest)]
    for path in others:
        remove(path)
    return others


def _is_of_another(path: Path, job_digest: str) -> bool:
    try:
        return read_manifest(path).job_digest != job_digest
    except CheckpointError:
        # Damaged, it may be this job's: the one who reads it must say so, not silently start over.
        return False


def sync(directory: Path) -> None:
    """Waits until the disk has the names in a folder."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
