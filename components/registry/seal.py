"""Seals folders that a later step or run loads as a program: Transform's graph and the exported model.

The step that writes a folder lists its files with their sha256 in `manifest.json`, as in a pushed version, and stores
the sha256 of that file as a property of the artifact. Before a folder is loaded, its files must be exactly those
listed: no byte changed, no file missing or extra, no link. Loads without TensorFlow and TFX.
"""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from sangam.schemas.errors import UserError

MANIFEST_FILE = "manifest.json"
SHA256 = "sha256"
"""Custom property of a sealed artifact: the sha256 of its manifest."""
REMAKE = "remove this folder; the next run writes it again"
_CHUNK_BYTES = 2**20


class FileEntry(BaseModel):
    """One file of a folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    bytes: int


def list_files(root: Path) -> dict[str, FileEntry]:
    """Returns size and sha256 of every file below `root` except the manifest, by relative path.

    Raises:
        UserError: for a link: a sealed or pushed folder must contain its own files.
    """
    try:
        return {name: _entry(path) for name, path in sorted(_paths(root).items())}
    except UserError as error:
        raise UserError(f"{root}: {error}") from None


def seal(folder: str) -> str:
    """Writes the manifest of a complete folder, and returns the manifest's sha256."""
    if "://" in folder:
        raise UserError(f"{folder}: is not a path (got a URI); mount the store, or use a path as pipeline root")
    files = {name: entry.model_dump() for name, entry in list_files(Path(folder)).items()}
    path = Path(folder, MANIFEST_FILE)
    path.write_text(json.dumps({"files": files}, indent=2) + "\n", encoding="utf-8")
    return sha256_of(path)


def refuse_changed(folder: str, sealed: str, remedy: str = REMAKE) -> None:
    """Refuses to load a folder that has changed since it was sealed.

    Args:
        folder: folder to load.
        sealed: sha256 of its manifest; empty if the artifact has none.
        remedy: last part of the error.

    Raises:
        UserError: with the file that differs.
    """
    if change := _change(Path(folder), sealed):
        raise UserError(f"{folder}: is not what was written there (got {change}); {remedy}")


def difference(folder: Path) -> str | None:
    """Returns the difference between a folder's files and its manifest; None without one, or without a manifest."""
    try:
        paths = _paths(folder)
        listed: dict[str, Any] = json.loads((folder / MANIFEST_FILE).read_bytes())["files"]
        expected = {name: str(entry["sha256"]) for name, entry in listed.items()}
    except FileNotFoundError:
        return None
    except UserError as error:
        return str(error)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST_FILE}: cannot be read ({type(error).__name__}: {error})"
    # Only paths found in the folder are opened: a name in the manifest may point outside it.
    for name in sorted(paths.keys() | expected.keys()):
        if name not in paths:
            return f"{name}: listed in {MANIFEST_FILE}, no such file"
        if name not in expected:
            return f"{name}: not listed in {MANIFEST_FILE}"
        try:
            sha256 = sha256_of(paths[name])
        except OSError as error:
            return f"{name}: listed in {MANIFEST_FILE}, cannot be read ({error.strerror})"
        if sha256 != expected[name]:
            return f"{name}: sha256 is {sha256}, in {MANIFEST_FILE} it is {expected[name]}"
    return None


def sha256_of(path: Path) -> str:
    """Returns the sha256 of a file."""
    return _entry(path).sha256


def _change(folder: Path, sealed: str) -> str | None:
    if not sealed:
        return "an artifact without sha256"
    manifest = folder / MANIFEST_FILE
    try:
        sha256 = sha256_of(manifest)
    except OSError as error:
        return f"{MANIFEST_FILE}: cannot be read ({error.strerror})"
    if sha256 != sealed:
        return f"{MANIFEST_FILE}: sha256 is {sha256}, recorded was {sealed}"
    return difference(folder)


def _paths(folder: Path) -> dict[str, Path]:
    """Returns every file below a folder except the manifest, by relative path.

    Raises:
        UserError: for a link or a special file; TensorFlow writes neither.
    """
    paths: dict[str, Path] = {}
    for parent, folders, names in os.walk(folder):
        for path in (Path(parent, name) for name in sorted([*folders, *names])):
            name = path.relative_to(folder).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise UserError(f"{name}: is a link (got one to {os.readlink(path)}); copy the file in its place")
            if stat.S_ISREG(mode):
                paths[name] = path
            elif not stat.S_ISDIR(mode):
                raise UserError(f"{name}: is a special file (got {stat.filemode(mode)}); remove it")
    paths.pop(MANIFEST_FILE, None)
    return paths


def _entry(path: Path) -> FileEntry:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileEntry(sha256=digest.hexdigest(), bytes=size)
