"""Seals folders that a later step or run loads as a program: Transform's graph and the exported model.

The step that has written a folder lists its files with their sha256 in `manifest.json`, as a pushed version does, and
notes the sha256 of that file on the artifact. Before a folder is loaded, it must be exactly what was listed: no byte
changed, no file more or less, no link. Loads without TensorFlow and TFX.
"""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from schemas.errors import UserError

MANIFEST_FILE = "manifest.json"
SHA256 = "sha256"
"""Custom property of a sealed artifact: of its manifest."""
ANEW = "remove this folder, and the next run makes it anew"
_CHUNK_BYTES = 2**20


class FileEntry(BaseModel):
    """One file of a folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    bytes: int


def list_files(root: Path) -> dict[str, FileEntry]:
    """Returns size and sha256 of every file below `root`, by its path relative to it, the manifest left out.

    Raises:
        UserError: for a link: what is sealed or pushed must not lie elsewhere.
    """
    try:
        return {name: _entry(path) for name, path in sorted(_paths(root).items())}
    except UserError as error:
        raise UserError(f"{root}: {error}") from None


def seal(folder: str) -> str:
    """Writes the manifest of a folder that nothing will be added to, and returns the manifest's sha256."""
    if "://" in folder:
        raise UserError(f"{folder}: is an address (got no path); mount the store, or use a path as pipeline root")
    files = {name: entry.model_dump() for name, entry in list_files(Path(folder)).items()}
    path = Path(folder, MANIFEST_FILE)
    path.write_text(json.dumps({"files": files}, indent=2) + "\n", encoding="utf-8")
    return sha256_of(path)


def refuse_changed(folder: str, sealed: str, mend: str = ANEW) -> None:
    """Stops before a folder is loaded that is not what was sealed.

    Args:
        folder: to load.
        sealed: sha256 of its manifest; empty if whoever wrote it noted none.
        mend: what can be done.

    Raises:
        UserError: naming the file that differs.
    """
    if found := _change(Path(folder), sealed):
        raise UserError(f"{folder}: is not what was written there (got {found}); {mend}")


def difference(folder: Path) -> str | None:
    """Says what of a folder's files is not as its manifest lists them; None: nothing, or there is no manifest."""
    try:
        there = _paths(folder)
        listed: dict[str, Any] = json.loads((folder / MANIFEST_FILE).read_bytes())["files"]
        wanted = {name: str(entry["sha256"]) for name, entry in listed.items()}
    except FileNotFoundError:
        return None
    except UserError as error:
        return str(error)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST_FILE}: cannot be read ({type(error).__name__}: {error})"
    # Names come from the folder, not from the manifest: one that leads out of it is never opened.
    for name in sorted(there.keys() | wanted.keys()):
        if name not in there:
            return f"{name}: listed in {MANIFEST_FILE}, no such file"
        if name not in wanted:
            return f"{name}: not listed in {MANIFEST_FILE}"
        try:
            found = sha256_of(there[name])
        except OSError as error:
            return f"{name}: listed in {MANIFEST_FILE}, cannot be read ({error.strerror})"
        if found != wanted[name]:
            return f"{name}: sha256 is {found}, in {MANIFEST_FILE} it is {wanted[name]}"
    return None


def sha256_of(path: Path) -> str:
    """Returns the sha256 of a file."""
    return _entry(path).sha256


def _change(folder: Path, sealed: str) -> str | None:
    if not sealed:
        return "an artifact without sha256"
    manifest = folder / MANIFEST_FILE
    try:
        found = sha256_of(manifest)
    except OSError as error:
        return f"{MANIFEST_FILE}: cannot be read ({error.strerror})"
    if found != sealed:
        return f"{MANIFEST_FILE}: sha256 is {found}, noted was {sealed}"
    return difference(folder)


def _paths(folder: Path) -> dict[str, Path]:
    """Returns every file below a folder by its path relative to it, the manifest left out.

    Raises:
        UserError: for a link, which may lead anywhere, and for what is neither a file nor a folder; TensorFlow writes
            neither.
    """
    found: dict[str, Path] = {}
    for parent, folders, names in os.walk(folder):
        for path in (Path(parent, name) for name in sorted([*folders, *names])):
            name = path.relative_to(folder).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise UserError(f"{name}: is a link (got one to {os.readlink(path)}); a model has files of its own")
            if stat.S_ISREG(mode):
                found[name] = path
            elif not stat.S_ISDIR(mode):
                raise UserError(f"{name}: is no file (got {stat.filemode(mode)}); a model has files and folders")
    found.pop(MANIFEST_FILE, None)
    return found


def _entry(path: Path) -> FileEntry:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileEntry(sha256=digest.hexdigest(), bytes=size)
