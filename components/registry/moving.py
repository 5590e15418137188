"""Moves a version file by file: mounted object stores cannot rename folders.

Servers, including TensorFlow Serving, treat a folder with `saved_model.pb` as a complete model. So that file is
moved into the serving folder last, and out of it first.
"""

import os
import shutil
from pathlib import Path

from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.host.files import refuse_links, refuse_links_within, sync


def move_in(source: Path, target: Path, *, but: str = "") -> None:
    """Moves a version, except the file `but`, into its serving folder; existing files stay."""
    files = [name for name in _files(source, target) if name != but]
    _move([name for name in files if name != MODEL_FILE], source, target)
    _move([name for name in files if name == MODEL_FILE], source, target)
    _remove(source)


def move_whole(source: Path, target: Path) -> None:
    """Moves a version into its serving folder in one step; file by file where folders cannot be renamed."""
    refuse_links_within(source)
    refuse_links(target, target.parent.parent)
    try:
        os.rename(source, target)
    except OSError:
        move_in(source, target)
        return
    for folder in (target.parent, source.parent):
        sync(folder)


def move_out(source: Path, target: Path) -> None:
    """Moves a version out of its serving folder; existing files of the target stay."""
    files = _files(source, target)
    _move([name for name in files if name == MODEL_FILE], source, target)
    _move([name for name in files if name != MODEL_FILE], source, target)
    _remove(source)


def _files(folder: Path, target: Path) -> list[str]:
    """Returns the files of a version; refuses links, also in the places that it may move to, before anything moves."""
    refuse_links_within(folder)
    refuse_links(target, target.parent.parent)
    refuse_links_within(target)
    paths = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return sorted(str(path.relative_to(folder)) for path in paths)


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
    """Removes the rest of a moved version: empty folders, and the file that was left out."""
    shutil.rmtree(folder)
    sync(folder.parent)
