"""Where the checkpoints of a training lie until it has ended well: a run that was killed is found again by what it is.

A training that was given up keeps them for a rerun, until another one of its ranker has ended well in its place.

TFX gives every execution folders of its own and removes them when it fails, so they cannot be there.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from schemas.spec import RankerSpec, digest
from schemas.spec.serving import Export

_LOG = logging.getLogger(__name__)
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_BEGUN = "begun"
GIVEN_UP_KEPT = 3
"""How many trainings of a ranker that were given up may be begun again, as long as none has ended well since."""


def checkpoint_dir(pipeline_root: str, *, ranker: RankerSpec, code: str, train_files: Sequence[str], base: str) -> Path:
    """Returns the folder of a training: the same for the same ranker, code, examples and base, and for no other.

    Args:
        pipeline_root: a local folder.
        ranker: what is trained.
        code: digest of the sources.
        train_files: paths of the examples; the artifact's own folder tells them from those of other days.
        base: checkpoint to start from, "" for none.
    """
    files = [[path, os.path.getsize(path)] for path in sorted(train_files)]
    # How the result is exported changes nothing of what is learned.
    trained = ranker.model_copy(update={"export": Export()})
    identity = json.dumps([digest(trained), code, files, base])
    return Path(pipeline_root) / "checkpoints" / ranker.name / hashlib.sha256(identity.encode()).hexdigest()[:32]


def begin(directory: Path, *, longest_s: float) -> None:
    """Makes the folder of a training that begins, or is begun again, and bounds what others have left.

    Args:
        directory: of the training.
        longest_s: for how long a training of this ranker may live: one that was begun before is dead.
    """
    _remove_dead(directory, longest_s, keep=GIVEN_UP_KEPT)


def forget(directory: Path, *, longest_s: float) -> None:
    """Removes the checkpoints of a training that has ended well, and of those of its ranker that were given up before.

    Their days are over: this one has learned from later ones, or by another spec. The folders above go when they are
    empty.
    """
    _remove_dead(directory, longest_s, keep=0)
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.parent.rmdir()
        directory.parent.parent.rmdir()


def _remove_dead(own: Path, longest_s: float, *, keep: int) -> None:
    """Notes when this training was last at work, and removes those that cannot be alive any more, but the last few."""
    # By the clock of the file system, and of a file: mounted object stores know no times of folders.
    own.mkdir(parents=True, exist_ok=True)
    (own / _BEGUN).write_text("")
    now = (own / _BEGUN).stat().st_mtime
    others = {path: _begun(path) for path in own.parent.iterdir() if path != own and _IDENTITY.fullmatch(path.name)}
    dead = sorted((path for path, begun in others.items() if begun < now - longest_s), key=others.__getitem__)
    for path in dead[: max(len(dead) - keep, 0)]:
        _LOG.info("event=removed_given_up_training path=%s", path)
        shutil.rmtree(path, ignore_errors=True)


def _begun(directory: Path) -> float:
    """Returns when a training was last begun, seconds since 1970."""
    for path in (directory / _BEGUN, directory):
        with contextlib.suppress(FileNotFoundError):
            return path.stat().st_mtime
    return math.inf  # It has ended just now.
