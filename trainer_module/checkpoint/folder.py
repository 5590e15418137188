"""Where a job's checkpoints lie, `step-000000001234`: one is whole once its manifest is there, which is written last.

No folder is ever renamed and nothing is linked: a mounted object store can do neither. A folder without a manifest is
being written or removed, or was left behind by a process that died; to readers it is not there. A damaged checkpoint
is kept aside as `damaged-step-...`.
"""

import contextlib
import os
import re
import shutil
from pathlib import Path

from schemas.files import sync, write_whole
from trainer_module.checkpoint.files import CheckpointError
from trainer_module.checkpoint.manifest import MANIFEST, Manifest, encode, read_manifest

DAMAGED_KEPT = 2
_BEST, _DAMAGED = ".best", "damaged-"
# Dots in front were written by earlier versions, which renamed whole folders.
_STEP = re.compile(rf"\.?step-\d{{12}}({re.escape(_BEST)}|\.tmp|\.old)?")


def step_folder(directory: Path, step: int, *, is_best: bool = False) -> Path:
    """Returns where the checkpoint of a step is written.

    That of the best epoch has a folder of its own: the step's own one, if there is any, must be whole until the other
    is.
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
    return [path for path in _folders(directory) if is_whole(path) and not path.name.startswith(".")]


def newest(directory: Path, job_digest: str) -> Path | None:
    """Returns the last checkpoint if it is of this job.

    Raises:
        CheckpointError: its manifest is damaged.
    """
    found = published(directory)
    return found[-1] if found and read_manifest(found[-1]).job_digest == job_digest else None


def publish(target: Path, manifest: Manifest) -> None:
    """Makes the checkpoint whose other files are on the disk a whole one."""
    write_last(target / MANIFEST, encode(manifest))
    sync(target.parent)


def write_last(path: Path, content: bytes) -> None:
    """Writes a small file that says that those beside it are complete: they reach the disk before it does."""
    sync(path.parent)
    write_whole(path, content)
    sync(path.parent)


def prune(directory: Path, keep: int) -> None:
    """Removes all checkpoints but the last `keep`, and those of the best epochs that these may end with."""
    found = published(directory)
    steps = map(_best_step, found[-keep:])
    best = {step_folder(directory, step, is_best=True) for step in steps if step is not None}
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
    """Removes a checkpoint, its manifest first, so that half of one is never taken for a whole one."""
    if path.is_symlink():
        path.unlink()  # What it leads to is not ours.
    elif path.exists():
        with contextlib.suppress(FileNotFoundError):
            os.remove(path / MANIFEST)
        sync(path)
        shutil.rmtree(path)


def remove_remains(directory: Path, *, but: Path | None = None) -> None:
    """Removes what is no whole checkpoint, and is not written any more; but: the one that is."""
    for path in _folders(directory):
        if path != but and (path.name.startswith(".") or not is_whole(path)):
            remove(path)


def clear(directory: Path, job_digest: str) -> list[Path]:
    """Removes what a dead job has left half written or half removed, and checkpoints of other jobs.

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
        # Damaged, it may be this job's: the one who reads it must say so, not silently start over.
        return False


def damaged(directory: Path) -> list[Path]:
    """Returns the damaged checkpoints that are kept aside, oldest step first."""
    return _named(directory, re.compile(re.escape(_DAMAGED) + _STEP.pattern))


def set_aside(path: Path) -> Path:
    """Keeps a damaged checkpoint for whoever wants to know why, where nobody goes on from it; the last two stay.

    File by file, the manifest first: from then on the checkpoint is not there.

    Returns:
        Where it lies now.
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
