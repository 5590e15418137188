"""Pushes a model into a folder of versions in an object store, which has neither renames of folders nor locks.

Unlike on a local file system, simultaneous pushes may collide; a schedule runs one at a time.
"""

import hashlib
import logging
import posixpath
import tempfile
from datetime import datetime
from pathlib import Path

from tfx.utils import io_utils

from sangam.components import object_stores
from sangam.components.registry import stored_versions
from sangam.components.registry.versions import WITHDRAWN
from sangam.components.steps.pusher import manifest
from sangam.components.steps.pusher.directory import Card, Pushed
from sangam.components.steps.pusher.manifest import Manifest, Provenance
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.errors import UserError

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


def push(
    *, model: str, target: str, day: str, provenance: Provenance, card: Card, now: datetime, reference: str = ""
) -> Pushed:
    """Copies a model into the next free version of a day, or returns the day's version with the same files and log.

    Raises:
        UserError: the store cannot be used, or a version with the same files was withdrawn.
    """
    with tempfile.TemporaryDirectory() as scratch:
        local = Path(scratch) / "model"
        io_utils.copy_dir(model, str(local))
        files = manifest.list_files(local)
        taken, withdrawn = object_stores.names(target), object_stores.names(f"{target}/{WITHDRAWN}")
        complete = sorted((name for name in taken if name.isdecimal() and _manifest(f"{target}/{name}")), key=int)
        for candidate in manifest.reusable_versions(day, complete):
            path = f"{target}/{candidate}"
            pushed_manifest = _manifest(path)
            if pushed_manifest and pushed_manifest.is_push_of(files, provenance, reference):
                return Pushed(version=candidate, path=path, manifest=pushed_manifest)
        for candidate in withdrawn:
            pushed_manifest = _manifest(f"{target}/{WITHDRAWN}/{candidate}")
            if pushed_manifest is not None and pushed_manifest.model_files == files:
                record = stored_versions.withdrawal(target, candidate)
                raise UserError(manifest.withdrawn_text(candidate, record.because, record.withdrawn_at, target))
        version = manifest.next_version(day, [*taken, *(name.removesuffix(".json") for name in withdrawn)])
        path = f"{target}/{version}"
        described = Manifest(**dict(provenance), version=version, created=now, files=files)
        beside = {manifest.CARD_FILE: card(version)} | ({manifest.REFERENCE_FILE: reference} if reference else {})
        for name, text in beside.items():
            described = described.with_file(name, text)
            (local / name).write_text(text, encoding="utf-8")
        _copy(local, path, described)
    _LOG.info("version=%s path=%s files=%d", version, path, len(described.files))
    return Pushed(version=version, path=path, manifest=described)


def _manifest(path: str) -> Manifest | None:
    """Returns a version's manifest; None for an incomplete push, as saved_model.pb is written last."""
    file = f"{path}/{manifest.FILE_NAME}"
    if not (object_stores.found(f"{path}/{MODEL_FILE}") and object_stores.found(file)):
        return None
    return manifest.read_manifest(file, object_stores.read(file))


def _copy(local: Path, path: str, described: Manifest) -> None:
    (local / manifest.FILE_NAME).write_text(described.text(), encoding="utf-8")
    for name in manifest.copy_order([*described.files, manifest.FILE_NAME]):
        with (local / name).open("rb") as file:
            object_stores.write(f"{path}/{name}", file)
        with (local / name).open("rb") as file, object_stores.open_stored(f"{path}/{name}") as written:
            if hashlib.file_digest(written, "sha256").digest() != hashlib.file_digest(file, "sha256").digest():  # type: ignore[arg-type]
                raise RuntimeError(f"{path}/{name}: differs from the model after the copy")
