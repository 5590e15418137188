"""A job's checkpoints, folders named `step-000000001234`. The manifest is written last and completes one.

Nothing is renamed or linked, as a mounted object store can do neither. A folder without a manifest is being written or
removed, or was left by a process that died; readers ignore it. A damaged checkpoint is set aside as
`damaged-step-...`.
"""

import os
import re
from pathlib import Path

from sangam.schemas.host.files import remove_folder, sync, write_whole
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.manifest import MANIFEST, Manifest, encode, read_manifest

DAMAGED_KEPT = 2
_BEST, _DAMAGED = ".best", "damaged-"
_STEP = re.compile(rf"step-\d{{12}}({re.escape(_BEST)})?")


def step_folder(directory: Path, step: int, *, is_best: bool = False) -> Path:
    """Returns where the checkpoint of a step is written.

    The best epoch's has a folder of its own: the step's other one, if any, must stay complete until this one is.
    """
    return directory / f"step-{step:012d}{_BEST if is_best else ''}"


def step_of(path: Path) -> int:
    """Returns the step of a checkpoint by its folder's name."""
    return int(path.name.removeprefix("step-").removesuffix(_BEST))


def is_whole(path: Path) -> bool:
    """Returns whether a folder is a checkpoint; its files may still be damaged."""
    return (path / MANIFEST).is_file() and not path.is_symlink()


def published(directory: Path) -> list[Path]:
    """Returns all whole checkpoints, oldest step first, the best epoch's after the step's own."""
    return [path for path in _folders(directory) if is_whole(path)]


def newest(directory: Path, job_digest: str) -> Path | None:
    """Returns the last checkpoint if it is of this job.

    Raises:
        CheckpointError: its manifest is damaged.
    """
    checkpoints = published(directory)
    return checkpoints[-1] if checkpoints and read_manifest(checkpoints[-1]).job_digest == job_digest else None


def publish(target: Path, manifest: Manifest) -> None:
    """Writes the manifest, which completes the checkpoint; its other files are on disk."""
    write_last(target / MANIFEST, encode(manifest))
    sync(target.parent)


def write_last(path: Path, content: bytes) -> None:
    """Writes a small file that marks the others in its folder as complete: they reach the disk before it."""
    sync(path.parent)
    write_whole(path, content)
    sync(path.parent)


def prune(directory: Path, keep: int) -> None:
    """Removes all checkpoints but the last `keep`, and the best epochs' checkpoints that these refer to."""
    checkpoints = published(directory)
    steps = map(_best_step, checkpoints[-keep:])
    best = {step_folder(directory, step, is_best=True) for step in steps if step is not None}
    for path in checkpoints[:-keep]:
        if path not in best:
            remove(path)


def _best_step(path: Path) -> int | None:
    try:
        return read_manifest(path).best_step
    except CheckpointError:
        # Nothing can be continued from it.
        return None


def remove(path: Path) -> None:
    """Removes a checkpoint, its manifest first, so that a partly removed one never counts as complete."""
    remove_folder(path, first=MANIFEST)


def remove_remains(directory: Path, *, but: Path | None = None) -> None:
    """Removes incomplete checkpoints, except `but`, which is being written."""
    for path in _folders(directory):
        if path != but and not is_whole(path):
            remove(path)


def clear(directory: Path, job_digest: str) -> list[Path]:
    """Removes incomplete checkpoints that a dead process left behind, and those of other jobs.

    Returns:
        The other jobs' checkpoints that were removed.
    """
    remove_remains(directory)
    others = [path for path in [*published(directory), *damaged(directory)] if _is_of_another(path, job_digest)]
    for path in others:
        remove(path)
    return others


def _is_of_another(path: Path, job_digest: str) -> bool:
    try:
        return read_manifest(path).job_digest != job_digest
    except CheckpointError:
        # A damaged one may be this job's: its reader must report it, not silently start over.
        return False


def damaged(directory: Path) -> list[Path]:
    """Returns the damaged checkpoints that were set aside, oldest step first."""
    return _named(directory, re.compile(re.escape(_DAMAGED) + _STEP.pattern))


def set_aside(path: Path) -> Path:
    """Moves a damaged checkpoint aside for examination; the last two stay.

    File by file, the manifest first: from then on readers ignore the checkpoint.

    Returns:
        Its new folder.
    """
    aside = path.with_name(_DAMAGED + path.name)
    remove(aside)
    aside.mkdir()
    for file in sorted(path.iterdir(), key=lambda file: file.name != MANIFEST):
        os.rename(file, aside / file.name)
    path.rmdir()
    for old in damaged(path.parent)[:-DAMAGED_KEPT]:
        remove(old)
    return aside


def _folders(directory: Path) -> list[Path]:
    return _named(directory, _STEP)


def _named(directory: Path, pattern: re.Pattern[str]) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if pattern.fullmatch(path.name))
