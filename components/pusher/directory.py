"""Puts a model into a folder of versions on a local file system, whole or not at all."""

import errno
import fcntl
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from components.pusher import manifest
from components.pusher.manifest import FileEntry, Manifest, Provenance
from schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_LEFTOVER = re.compile(r"^\.tmp-\d{11}-[0-9a-f]{8}$")


@dataclass(frozen=True)
class Pushed:
    """A version that is in place."""

    version: str
    path: str
    manifest: Manifest


def target_folder(pipeline_root: str, path: str) -> Path:
    """Returns the folder of versions.

    Raises:
        UserError: if it is not inside the pipeline root, links followed.
    """
    root = Path(pipeline_root).resolve()
    target = (root / path).resolve()
    if target == root or root not in target.parents:
        raise UserError(
            f"push.path: leads out of the pipeline root {root} (got '{path}', which is {target}); "
            "give a folder below it, for example serving/my_ranker"
        )
    return target


def push(*, model: Path, target: Path, day: str, provenance: Provenance, now: datetime) -> Pushed:
    """Copies a model into the next free version of a day, or returns the version of the day that is this very model.

    The second happens when an earlier run was killed between the rename and the end of its step.

    Args:
        model: the SavedModel's folder.
        target: the folder of versions; made if need be.
        day: YYYYMMDD.
        provenance: goes into the manifest.
        now: the time for the manifest, UTC.
    """
    files = manifest.list_files(model)
    if manifest.MODEL_FILE not in files:
        raise UserError(f"{model}: not a SavedModel (got no {manifest.MODEL_FILE}); the trainer must export one")
    target.mkdir(parents=True, exist_ok=True)
    with _locked(target):
        _remove_leftovers(target)
        present = _find(target, day, files)
        if present is not None:
            _LOG.info("version=%s path=%s already_pushed=true", present.version, present.path)
            return present
        version = manifest.next_version(day, os.listdir(target))
        temporary = target / f".tmp-{version}-{secrets.token_hex(4)}"
        try:
            _copy(model, temporary, files)
            return _publish(
                temporary, target, day, Manifest(**dict(provenance), version=version, created=now, files=files)
            )
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Holds the folder's lock: one push at a time, and no other's temporary folder is taken for a leftover."""
    descriptor = os.open(target, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_leftovers(target: Path) -> None:
    for leftover in [entry for entry in target.iterdir() if _LEFTOVER.match(entry.name)]:
        _LOG.warning("leftover_of_a_killed_push=%s removed=true", leftover)
        shutil.rmtree(leftover)


def _find(target: Path, day: str, files: dict[str, FileEntry]) -> Pushed | None:
    for version in reversed(manifest.versions_of(day, os.listdir(target))):
        path = target / version
        try:
            found = Manifest.model_validate_json((path / manifest.FILE_NAME).read_bytes())
        except (OSError, ValueError):
            continue  # Not a version of ours; its number stays taken.
        if found.files == files:
            return Pushed(version=version, path=str(path), manifest=found)
    return None


def _copy(model: Path, temporary: Path, files: dict[str, FileEntry]) -> None:
    temporary.mkdir()
    for name in manifest.copy_order(files):
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model / name, temporary / name)
        _sync(temporary / name)
    written = manifest.list_files(temporary)
    wrong = sorted(name for name in files.keys() | written.keys() if files.get(name) != written.get(name))
    if wrong:
        raise RuntimeError(f"{temporary}: files differ from the model in {model} after the copy: {', '.join(wrong)}")


def _publish(temporary: Path, target: Path, day: str, described: Manifest) -> Pushed:
    """Renames the copy to its version; to the next one if somebody who takes no lock was faster."""
    while True:
        path = target / described.version
        (temporary / manifest.FILE_NAME).write_text(described.text(), encoding="utf-8")
        _sync(temporary / manifest.FILE_NAME)
        for folder in [entry for entry in temporary.rglob("*") if entry.is_dir()] + [temporary]:
            _sync(folder)
        try:
            if os.path.lexists(path):  # A rename would replace an empty folder without a word.
                raise FileExistsError(errno.EEXIST, "exists", str(path))
            os.rename(temporary, path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            described = described.model_copy(update={"version": manifest.next_version(day, os.listdir(target))})
            continue
        _sync(target)
        _LOG.info("version=%s path=%s files=%d", described.version, path, len(described.files))
        return Pushed(version=described.version, path=str(path), manifest=described)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
