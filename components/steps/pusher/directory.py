"""Puts a model into a folder of versions on a local file system, whole or not at all."""

import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from components.registry import moving, versions
from components.steps.pusher import manifest
from components.steps.pusher.manifest import FileEntry, Manifest, Provenance
from schemas.errors import UserError
from schemas.files import sync

_LOG = logging.getLogger(__name__)
_LEFTOVER = re.compile(r"^\.tmp-\d{11}-[0-9a-f]{8}$")
_CLAIM = ".claim"
"""File beside a model that is moved to its version: whoever finds it finds that version half moved, or whole."""


@dataclass(frozen=True)
class Pushed:
    """A version that is in place."""

    version: str
    path: str
    manifest: Manifest


Card = Callable[[str], str]
"""From a version to the text of its model card."""


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


def push(*, model: Path, target: Path, day: str, provenance: Provenance, card: Card, now: datetime) -> Pushed:
    """Copies a model into the next free version of a day, or returns the version of the day that is this very model.

    The second happens when an earlier run was killed after its push, before the end of its step. A version that another
    one of its day has taken the place of is not returned but pushed again, to be served.

    Args:
        model: the SavedModel's folder.
        target: the folder of versions; made if need be.
        day: YYYYMMDD.
        provenance: goes into the manifest.
        card: writes the model card, which lies beside the model.
        now: the time for the manifest, UTC.

    Raises:
        UserError: if this very model was withdrawn.
    """
    files = manifest.list_files(model)
    if manifest.MODEL_FILE not in files:
        raise UserError(f"{model}: not a SavedModel (got no {manifest.MODEL_FILE}); the trainer must export one")
    target.mkdir(parents=True, exist_ok=True)
    with versions.locked(target):
        versions.finish_moves(target)
        _remove_leftovers(target)
        present = _find(target, day, files)
        if present is not None:
            _LOG.info("version=%s path=%s already_pushed=true", present.version, present.path)
            return present
        _refuse_withdrawn(target, files)
        version = manifest.next_version(day, _taken(target))
        temporary = target / f".tmp-{version}-{secrets.token_hex(4)}"
        try:
            _copy(model, temporary, files)
            described = Manifest(**dict(provenance), version=version, created=now, files=files)
            return _publish(temporary, target, day, described, card)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _taken(target: Path) -> list[str]:
    """Returns every name that no new version may have: numbers of withdrawn versions are never given again."""
    records = (target / versions.WITHDRAWN).glob("*.json")
    return [*os.listdir(target), *versions.numbers_taken(target), *(record.stem for record in records)]


def _remove_leftovers(target: Path) -> None:
    for leftover in [entry for entry in target.iterdir() if _LEFTOVER.match(entry.name)]:
        _LOG.warning("leftover_of_a_killed_push=%s removed=true", leftover)
        _remove_half_moved(leftover, target)
        shutil.rmtree(leftover)


def _remove_half_moved(leftover: Path, target: Path) -> None:
    try:
        version = (leftover / _CLAIM).read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    if re.fullmatch(r"\d{11}", version) and not (target / version / manifest.MODEL_FILE).exists():
        shutil.rmtree(target / version, ignore_errors=True)


def _find(target: Path, day: str, files: dict[str, FileEntry]) -> Pushed | None:
    for version in manifest.to_find(day, versions.versions(target)):
        path = target / version
        if not (path / manifest.MODEL_FILE).is_file():
            continue  # Somebody's copy that has not ended.
        try:
            found = Manifest.model_validate_json((path / manifest.FILE_NAME).read_bytes())
        except (OSError, ValueError):
            continue  # Not a version of ours; its number stays taken.
        if found.model_files == files:
            return Pushed(version=version, path=str(path), manifest=found)
    return None


def _refuse_withdrawn(target: Path, files: dict[str, FileEntry]) -> None:
    """Stops a push of files that somebody has taken back."""
    for version, withdrawal in reversed(versions.withdrawn(target).items()):
        try:
            text = (target / versions.WITHDRAWN / version / manifest.FILE_NAME).read_bytes()
            if Manifest.model_validate_json(text).model_files != files:
                continue
        except (OSError, ValueError):
            continue  # Nothing says what its files were.
        raise UserError(manifest.withdrawn_text(version, withdrawal.because, withdrawal.withdrawn_at, str(target)))


def _copy(model: Path, temporary: Path, files: dict[str, FileEntry]) -> None:
    temporary.mkdir()
    for name in manifest.copy_order(files):
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model / name, temporary / name)
        sync(temporary / name)
    written = manifest.list_files(temporary)
    wrong = sorted(name for name in files.keys() | written.keys() if files.get(name) != written.get(name))
    if wrong:
        raise RuntimeError(f"{temporary}: files differ from the model in {model} after the copy: {', '.join(wrong)}")


def _publish(temporary: Path, target: Path, day: str, described: Manifest, card: Card) -> Pushed:
    """Moves the copy to its version; to the next one if somebody who takes no lock was faster."""
    while True:
        path = target / described.version
        described = described.with_card(card(described.version))
        for name, text in ((manifest.CARD_FILE, card(described.version)), (manifest.FILE_NAME, described.text())):
            (temporary / name).write_text(text, encoding="utf-8")
            sync(temporary / name)
        try:
            path.mkdir()
            break
        except FileExistsError:
            described = described.model_copy(update={"version": manifest.next_version(day, _taken(target))})
    try:
        (temporary / _CLAIM).write_text(described.version, encoding="utf-8")
        moving.move_in(temporary, path, but=_CLAIM)
    except BaseException:
        # Before the temporary folder goes, which says whose the half of a version is.
        _remove_half_moved(temporary, target)
        raise
    sync(target)
    _LOG.info("version=%s path=%s files=%d", described.version, path, len(described.files))
    return Pushed(version=described.version, path=str(path), manifest=described)
