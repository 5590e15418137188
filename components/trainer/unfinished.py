"""Where the checkpoints of a training lie until it has ended well: a run that was killed is found again by what it is.

TFX gives every execution folders of its own and removes them when it fails, so they cannot be there.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from schemas.serving import Export
from schemas.spec import Ranker, digest


def checkpoint_dir(pipeline_root: str, *, ranker: Ranker, code: str, train_files: Sequence[str], base: str) -> Path:
    """Returns the folder of a training: the same for the same ranker, code, examples and base, and for no other.

    Args:
        pipeline_root: a local folder.
        ranker: what is trained.
        code: digest of the sources.
        train_files: paths of the examples; the artifact's own folder tells them from those of other days.
        base: checkpoint to start from, "" for none.
    """
    files = [[path, os.path.getsize(path)] for path in sorted(train_files)]
    # How the result is exported changes nothing of what is learnt.
    trained = ranker.model_copy(update={"export": Export()})
    identity = json.dumps([digest(trained), code, files, base])
    return Path(pipeline_root) / "checkpoints" / ranker.name / hashlib.sha256(identity.encode()).hexdigest()[:32]


def forget(directory: Path) -> None:
    """Removes the checkpoints of a training that has ended well, and the folders above when it was the last."""
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.parent.rmdir()
        directory.parent.parent.rmdir()
