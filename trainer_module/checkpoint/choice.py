"""Which checkpoint a training starts from: rank 0 decides, and every other rank must see the same one.

Ranks on other machines may see other folders, or an older listing of the same one. Without this check they would
silently train on different weights.
"""

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint.files import CheckpointError, DamagedError
from sangam.trainer_module.checkpoint.manifest import Manifest, encode, read_manifest

_LOG = logging.getLogger("sangam.trainer_module.checkpoint")
PATIENCE_S = 60.0
"""Largest age of a directory listing on a network file system: NFS keeps one for this long by default."""
_POLL_S = 0.5


@dataclass(frozen=True)
class Seen:
    """A rank's view of a folder.

    Attributes:
        told: description of the checkpoint in one line; equal lines on all ranks mean equal checkpoints.
        path: path of the checkpoint; None without one to resume from.
        manifest: manifest of the checkpoint.
        is_refused: whether the checkpoint cannot be used; `told` is the reason.
    """

    told: str
    path: Path | None = None
    manifest: Manifest | None = None
    is_refused: bool = False


def agreed_newest(directory: Path, job_digest: str, *, rank: int, patience_s: float = PATIENCE_S) -> Path | None:
    """Returns the checkpoint that all ranks continue from, or None; all ranks call it.

    Raises:
        CheckpointError: on all ranks, when one of them sees another checkpoint than rank 0, or only damaged ones are
            left.
    """
    return _agreed(lambda: _newest(directory, job_digest, is_first=rank == 0), directory, patience_s).path


def agreed_base(directory: Path, *, patience_s: float = PATIENCE_S) -> Manifest:
    """Returns the manifest of a checkpoint to start from; all ranks call it.

    Raises:
        CheckpointError: on all ranks, when it is damaged, or one of them sees another one than rank 0.
    """
    manifest = _agreed(lambda: _seen(directory), directory, patience_s).manifest
    assert manifest is not None
    return manifest


def _agreed(look: Callable[[], Seen], directory: Path, patience_s: float) -> Seen:
    """Returns the common view of all ranks; a rank with another view than rank 0 looks again for a while."""
    seen, given_up = look(), time.monotonic() + patience_s
    first = collectives.texts(seen.told, name="checkpoint_seen")[0]
    while _cut(seen.told) != first and time.monotonic() < given_up:
        time.sleep(_POLL_S)
        seen = look()
    for rank, told in enumerate(collectives.texts(seen.told, name="checkpoint_agreed")):
        if told != first:
            raise CheckpointError(
                f"{directory}: ranks see different checkpoints (got rank {rank}: {told}; rank 0: {first}); have all "
                "ranks see one folder under this path"
            )
    if seen.is_refused:
        raise CheckpointError(seen.told)
    return seen


def _cut(told: str) -> str:
    return told.encode()[: collectives.MAX_TEXT_BYTES].decode(errors="ignore")


def _newest(directory: Path, job_digest: str, *, is_first: bool) -> Seen:
    while True:
        try:
            path = folder.newest(directory, job_digest)
            break
        except CheckpointError as error:
            if not (is_first and isinstance(error, DamagedError)):
                return Seen(str(error), is_refused=True)
            set_aside(folder.published(directory)[-1], str(error))
    if path is not None:
        return _seen(path)
    if names := ", ".join(aside.name for aside in folder.damaged(directory)):
        return Seen(
            f"{directory}: holds no whole checkpoint (got {names}); to restart this training, remove that folder",
            is_refused=True,
        )
    return Seen("none")


def set_aside(path: Path, reason: str) -> None:
    """Sets a damaged checkpoint aside, and logs it; rank 0 alone calls it."""
    aside = folder.set_aside(path)
    _LOG.error("event=checkpoint_passed_over path=%s kept=%s reason: %s", path, aside, reason)


def _seen(path: Path) -> Seen:
    try:
        manifest = read_manifest(path)
    except CheckpointError as error:
        return Seen(str(error), is_refused=True)
    digest = hashlib.sha256(encode(manifest)).hexdigest()
    position = manifest.position.model_dump_json()
    return Seen(f"{path.name} step={manifest.step} position={position} sha256={digest}", path, manifest)
