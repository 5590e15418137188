"""Puts a model into a folder of versions of an object store, which knows neither renames of folders nor locks.

Unlike on a local file system two pushes at the same moment may collide; a schedule runs one at a time.
"""

import logging
import posixpath
import tempfile
from datetime import datetime
from pathlib import Path

from tfx.dsl.io import fileio
from tfx.utils import io_utils

from components.pusher import manifest
from components.pusher.directory import Pushed
from components.pusher.manifest import Manifest, Provenance
from schemas.errors import UserError

_LOG = logging.getLogger(__name__)


def target_uri(pipeline_root: str, path: str) -> str:
    """Returns the folder of versions.

    Raises:
        UserError: if it is not inside the pipeline root.
    """
    normal = posixpath.normpath(path)
    if normal.startswith(("/", "..")) or normal == "." or "://" in path:
        raise UserError(
            f"push.path: leads out of the pipeline root {pipeline_root} (got '{path}'); give a folder below it"
        )
    return f"{pipeline_root.rstrip('/')}/{normal}"


def push(*, model: str, target: str, day: str, provenance: Provenance, now: datetime) -> Pushed:
    """Copies a model into the next free version of a day, or returns the version of the day that is this very model."""
    with tempfile.TemporaryDirectory() as scratch:
        local = Path(scratch) / "model"
        io_utils.copy_dir(model, str(local))
        files = manifest.list_files(local)
        taken = [name.rstrip("/") for name in fileio.listdir(target)] if fileio.isdir(target) else []
        for known in reversed(manifest.versions_of(day, taken)):
            path = f"{target}/{known}"
            # saved_model.pb comes last: without it the version is the remains of a killed push.
            if fileio.exists(f"{path}/{manifest.MODEL_FILE}") and fileio.exists(f"{path}/{manifest.FILE_NAME}"):
                found = Manifest.model_validate_json(_read(f"{path}/{manifest.FILE_NAME}"))
                if found.files == files:
                    return Pushed(version=known, path=path, manifest=found)
        version = manifest.next_version(day, taken)
        path = f"{target}/{version}"
        described = Manifest(**dict(provenance), version=version, created=now, files=files)
        _copy(local, path, described)
    _LOG.info("version=%s path=%s files=%d", version, path, len(files))
    return Pushed(version=version, path=path, manifest=described)


def _copy(local: Path, path: str, described: Manifest) -> None:
    (local / manifest.FILE_NAME).write_text(described.text(), encoding="utf-8")
    for name in manifest.copy_order([*described.files, manifest.FILE_NAME]):
        fileio.makedirs(posixpath.dirname(f"{path}/{name}"))
        fileio.copy(str(local / name), f"{path}/{name}")
        if _read(f"{path}/{name}") != (local / name).read_bytes():
            raise RuntimeError(f"{path}/{name}: differs from the model after the copy")


def _read(path: str) -> bytes:
    with fileio.open(path, "rb") as file:
        contents: bytes = file.read()
    return contents
