"""Moves a version file by file: a mounted object store renames no folders. `saved_model.pb` says where it is.

Servers, ours and TensorFlow Serving, take a folder with that file for a whole model. It comes last to where a version
is served from, and leaves first.
"""

import os
import shutil
from pathlib import Path

from schemas.files import sync

MODEL_FILE = "saved_model.pb"


def move_in(source: Path, target: Path, *, but: str = "") -> None:
    """Moves a version to where it is served, all but one file; what is there of it stays."""
    files = [name for name in _files(source) if name != but]
    _move([name for name in files if name != MODEL_FILE], source, target)
    _move([name for name in files if name == MODEL_FILE], source, target)
    _remove(source)


def move_out(source: Path, target: Path) -> None:
    """Moves a version from where it is served; what is there of it stays."""
    files = _files(source)
    _move([name for name in files if name == MODEL_FILE], source, target)
    _move([name for name in files if name != MODEL_FILE], source, target)
    _remove(source)


def _files(folder: Path) -> list[str]:
    found = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return sorted(str(path.relative_to(folder)) for path in found)


def _move(names: list[str], source: Path, target: Path) -> None:
    folders = {target}
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        folders.add((target / name).parent)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        os.rename(source / name, target / name)
    for folder in [*sorted(folders, reverse=True), source]:
        sync(folder)


def _remove(folder: Path) -> None:
    """Removes what is left of a moved version: folders, and what was not to be moved."""
    shutil.rmtree(folder)
    sync(folder.parent)
