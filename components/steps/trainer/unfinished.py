"""The folder of an unfinished training's checkpoints, named by a digest so that a rerun finds them.

They stay after a failure, until another training of the same ranker succeeds. They cannot be in TFX's outputs, which
are new in every execution and removed after a failure.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from sangam.schemas.contracts.root import Root
from sangam.schemas.host.files import write_whole
from sangam.schemas.spec import RankerSpec, digest
from sangam.schemas.spec.serving import Export

_LOG = logging.getLogger(__name__)
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_BEGUN = "begun"
GIVEN_UP_KEPT = 3
"""Number of abandoned trainings of a ranker whose checkpoints are kept until one succeeds."""


def checkpoint_dir(
    pipeline_root: str,
    *,
    ranker: RankerSpec,
    code: str,
    train_files: Sequence[str],
    transform_graph: str,
    base: str,
) -> Path:
    """Returns the folder of a training, which depends on its ranker, code, examples and base.

    Args:
        pipeline_root: a local folder.
        ranker: ranker to train.
        code: digest of the sources.
        train_files: paths of the examples, in folders that never change.
        transform_graph: path of Transform's graph, in the artifact's unique folder.
        base: checkpoint to start from, "" for none.
    """
    files = [[path, os.path.getsize(path)] for path in sorted(train_files)]
    # The export does not affect training.
    trained = ranker.model_copy(update={"export": Export()})
    identity = json.dumps([digest(trained), code, files, transform_graph, base])
    return Root(pipeline_root).checkpoints(ranker.name) / hashlib.sha256(identity.encode()).hexdigest()[:32]


def begin(directory: Path, *, longest_s: float) -> None:
    """Creates the folder of a training that starts or restarts, and removes old folders of others.

    Args:
        directory: directory of the training.
        longest_s: longest time that a training of this ranker may run: an older one is dead.
    """
    _remove_dead(directory, longest_s, keep=GIVEN_UP_KEPT)


def forget(directory: Path, *, longest_s: float) -> None:
    """Removes the checkpoints of a successful training, and of abandoned ones of the same ranker.

    The latter are obsolete: this training used later days or another spec. Empty parent folders are removed too.
    """
    _remove_dead(directory, longest_s, keep=0)
    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.parent.rmdir()
        directory.parent.parent.rmdir()


def longest_s(ranker: RankerSpec) -> float:
    """Returns the longest time that a training may run: each restarted launcher has the full deadline."""
    return float(ranker.cluster.deadline_s * (ranker.cluster.retries + 1))


def newest_first(parent: Path) -> list[Path]:
    """Returns the folders of unfinished trainings, the last started first."""
    found = [path for path in parent.glob("*") if _IDENTITY.fullmatch(path.name)]
    return sorted(found, key=_begun, reverse=True)


def may_be_running(directory: Path, *, longest_s: float) -> bool:
    """Returns whether a training was started so recently that it may still run, on another machine."""
    return _begun(directory) >= time.time() - longest_s


def _remove_dead(own: Path, longest_s: float, *, keep: int) -> None:
    """Records the start of this training, and removes dead trainings, except the last `keep`."""
    # By the time of a file, from the file system's clock: mounted object stores have no times of folders.
    own.mkdir(parents=True, exist_ok=True)
    write_whole(own / _BEGUN, "")
    now = (own / _BEGUN).stat().st_mtime
    others = {path: _begun(path) for path in own.parent.iterdir() if path != own and _IDENTITY.fullmatch(path.name)}
    dead = sorted((path for path, begun in others.items() if begun < now - longest_s), key=others.__getitem__)
    for path in dead[: max(len(dead) - keep, 0)]:
        _LOG.info("event=removed_given_up_training path=%s", path)
        shutil.rmtree(path, ignore_errors=True)


def _begun(directory: Path) -> float:
    """Returns when a training was last started, in seconds since 1970."""
    for path in (directory / _BEGUN, directory):
        with contextlib.suppress(FileNotFoundError):
            return path.stat().st_mtime
    return math.inf  # It has just been removed.
