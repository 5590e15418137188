"""Pushes a model into a folder of versions on a local file system, atomically."""

import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from sangam.components.registry import moving, seal, shadow, versions
from sangam.components.steps.pusher import manifest
from sangam.components.steps.pusher.manifest import FileEntry, Manifest, Provenance
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import refuse_links, remove_folder, sync

_LOG = logging.getLogger(__name__)
_LEFTOVER = re.compile(r"^\.tmp-\d{11}-[0-9a-f]{8}$")
_WAIT_S = 600.0
"""For how long a push waits for another one, which may copy large tables."""
_LINKED_BYTES = 16 * 2**20
"""Size of the smallest files that versions share: an export gives tables of this size files of their own."""
_CLAIM = ".claim"
"""File in the temporary folder that names the target version, which after a kill is complete or must be removed."""


@dataclass(frozen=True)
class Pushed:
    """A pushed version.

    Attributes:
        version: number.
        path: folder that it has once it is live.
        manifest: its manifest.
        shadow_of: live version in whose shadow it waits; empty: it does not.
    """

    version: str
    path: str
    manifest: Manifest
    shadow_of: str = ""


Card = Callable[[str], str]
"""Returns the text of a version's model card."""


def target_folder(pipeline_root: str, path: str) -> Path:
    """Returns the folder of versions.

    Raises:
        UserError: if it is not inside the pipeline root, after resolving links.
    """
    root = Path(pipeline_root).resolve()
    target = (root / path).resolve()
    if target == root or root not in target.parents:
        raise UserError(
            f"push.path: leads out of the pipeline root {root} (got '{path}', which is {target}); "
            "give a folder below it, for example serving/my_ranker"
        )
    return target


def push(
    *,
    model: Path,
    target: Path,
    day: str,
    provenance: Provenance,
    card: Card,
    now: datetime,
    reference: str = "",
    after_hours: float | None = None,
) -> Pushed:
    """Copies a model into the next free version of a day, or returns the day's version with the same files and log.

    The latter happens if an earlier run was killed after its push. A version that a later one of the same day has
    replaced is pushed again, so that it is served.

    Args:
        model: folder of the SavedModel.
        target: folder of versions; created if missing.
        day: YYYYMMDD.
        provenance: provenance for the manifest.
        card: returns the model card.
        now: time of the manifest, UTC.
        reference: text of the file with which servers compare what they are asked; empty: none.
        after_hours: hours that it waits in the shadow, from which it withdraws older versions; None: it is live at
            once, as the first version always is.

    Raises:
        UserError: if a version with the same files was withdrawn.
    """
    files = manifest.list_files(model)
    if MODEL_FILE not in files:
        raise UserError(f"{model}: is not a SavedModel (got no {MODEL_FILE}); the trainer must export one")
    target.mkdir(parents=True, exist_ok=True)
    with versions.locked(target, wait_s=_WAIT_S):
        versions.finish_moves(target)
        _remove_leftovers(target)
        live = versions.versions(target)
        shadow_of = live[-1] if live and after_hours is not None else ""
        present = _find(target, day, files, provenance, reference, shadow_of)
        if present is None:
            _refuse_withdrawn(target, files)
            described = Manifest(
                **dict(provenance), version=manifest.next_version(day, _taken(target)), created=now, files=files
            )
            if shadow_of:
                told = [f"This version {shadow.waits_text(shadow_of, after_hours)}."]

                def waits(version: str) -> str:
                    return shadow.with_section(card(version), told)

                present = _put(model, target, versions.SHADOW, day, described, waits, reference)
                present = replace(present, path=str(target / present.version), shadow_of=shadow_of)
            else:
                present = _put(model, target, "", day, described, card, reference)
        else:
            _LOG.info("version=%s path=%s already_pushed=true", present.version, present.path)
        if present.shadow_of:
            shadow.supersede(target, now=now)
        return present


def _put(model: Path, target: Path, below: str, day: str, described: Manifest, card: Card, reference: str) -> Pushed:
    """Copies a model, and moves the copy to a new version."""
    place = target / below
    refuse_links(place, target)
    place.mkdir(exist_ok=True)
    temporary = place / f".tmp-{described.version}-{secrets.token_hex(4)}"
    live = versions.versions(target)
    try:
        _copy(model, temporary, described.files, target / live[-1] if live else None)
        if reference:
            _write(temporary / manifest.REFERENCE_FILE, reference)
            described = described.with_file(manifest.REFERENCE_FILE, reference)
        return _publish(temporary, target, below, day, described, card)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _taken(target: Path) -> list[str]:
    """Returns the names that a new version must not have, including numbers of withdrawn versions."""
    records = (target / versions.WITHDRAWN).glob("*.json")
    return [*os.listdir(target), *versions.numbers_taken(target), *(record.stem for record in records)]


def _remove_leftovers(target: Path) -> None:
    for folder in (target, target / versions.SHADOW):
        for leftover in [entry for entry in folder.glob("*") if _LEFTOVER.match(entry.name)]:
            _LOG.warning("leftover_of_a_killed_push=%s removed=true", leftover)
            _remove_half_moved(leftover, folder)
            remove_folder(leftover)


def _remove_half_moved(leftover: Path, target: Path) -> None:
    try:
        version = (leftover / _CLAIM).read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    if re.fullmatch(r"\d{11}", version) and not (target / version / MODEL_FILE).exists():
        shutil.rmtree(target / version, ignore_errors=True)


def _find(
    target: Path, day: str, files: dict[str, FileEntry], provenance: Provenance, reference: str, shadow_of: str
) -> Pushed | None:
    places = {version: target / version for version in manifest.reusable_versions(day, versions.versions(target))}
    waiting = versions.shadow(target) if shadow_of else None
    if waiting:
        places[waiting] = target / versions.SHADOW / waiting
    for version, path in places.items():
        if not (path / MODEL_FILE).is_file():
            continue  # A copy in progress.
        try:
            file = path / manifest.FILE_NAME
            pushed_manifest = manifest.read_manifest(str(file), file.read_bytes())
        except (OSError, ValueError):
            continue  # Not pushed by Sangam; its number stays in use.
        if pushed_manifest.is_push_of(files, provenance, reference):
            return Pushed(version, str(target / version), pushed_manifest, shadow_of if version == waiting else "")
    return None


def _refuse_withdrawn(target: Path, files: dict[str, FileEntry]) -> None:
    """Refuses the files of a withdrawn version."""
    for version, withdrawal in reversed(versions.withdrawn(target).items()):
        try:
            file = target / versions.WITHDRAWN / version / manifest.FILE_NAME
            if manifest.read_manifest(str(file), file.read_bytes()).model_files != files:
                continue
        except (OSError, ValueError):
            continue  # Its files are unknown.
        raise UserError(manifest.withdrawn_text(version, withdrawal.because, withdrawal.withdrawn_at, str(target)))


def _copy(model: Path, temporary: Path, files: dict[str, FileEntry], former: Path | None) -> None:
    temporary.mkdir()
    for name in manifest.copy_order(files):
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        if former is None or not _is_linked(former / name, temporary / name, files[name]):
            shutil.copyfile(model / name, temporary / name)
            sync(temporary / name)
    written = manifest.list_files(temporary)
    wrong = sorted(name for name in files.keys() | written.keys() if files.get(name) != written.get(name))
    if wrong:
        raise RuntimeError(f"{temporary}: files differ from the model in {model} after the copy: {', '.join(wrong)}")


def _is_linked(former: Path, file: Path, entry: FileEntry) -> bool:
    """Links a large file of the former version that has the same content; returns whether.

    A server that maps tables then has one copy of an unchanged one, also while it has both versions. Small files are
    copied: damage to one of them, the graph's for example, should leave a version to go back to.
    """
    try:
        if (
            entry.bytes < _LINKED_BYTES
            or former.lstat().st_size != entry.bytes
            or seal.sha256_of(former) != entry.sha256
        ):
            return False
        os.link(former, file, follow_symlinks=False)
    except OSError:  # There is none, or the file system has no links.
        return False
    return True


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    sync(path)


def _publish(temporary: Path, target: Path, below: str, day: str, described: Manifest, card: Card) -> Pushed:
    """Moves the copy to its version, or to the next one if a process without the lock has created it."""
    while True:
        path = target / below / described.version
        described = described.with_file(manifest.CARD_FILE, card(described.version))
        _write(temporary / manifest.CARD_FILE, card(described.version))
        _write(temporary / manifest.FILE_NAME, described.text())
        try:
            path.mkdir()
            break
        except FileExistsError:
            described = described.model_copy(update={"version": manifest.next_version(day, _taken(target))})
    try:
        (temporary / _CLAIM).write_text(described.version, encoding="utf-8")
        moving.move_in(temporary, path, but=_CLAIM)
    except BaseException:
        # Before the temporary folder, which names the incomplete version, is removed.
        _remove_half_moved(temporary, target / below)
        raise
    sync(target / below)
    _LOG.info("version=%s path=%s files=%d", described.version, path, len(described.files))
    return Pushed(version=described.version, path=str(path), manifest=described)
