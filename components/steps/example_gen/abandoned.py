"""Removes files of killed runs from the store of days: unfinished attempts and temporary files."""

import glob
import logging
import posixpath
from pathlib import Path

from tfx.dsl.io import fileio

from sangam.components.examples.day_results import TEMPORARY
from sangam.components.logs.files.listing import Storage
from sangam.schemas.host.files import remove_folder

_LOG = logging.getLogger(__name__)
UNFINISHED = "unfinished"
"""File of an attempt; it is removed once all examples are written."""
AGE_S = 7 * 86_400.0
"""Minimum age of removed files, far longer than a step: another machine's run may still write younger ones."""


def remove_abandoned(root: str, now: float, storage: Storage) -> None:
    """Removes attempts that began, and temporary files that were written, longer ago than any step runs.

    Args:
        root: root of the store.
        now: seconds since the epoch.
        storage: storage that lists the root.
    """
    store = glob.escape(root)
    patterns = [f"{store}/*/*/{UNFINISHED}", *(f"{store}/{folders}{TEMPORARY}" for folders in ("", "*/", "*/*/"))]
    marks, *temporary = storage.match(patterns)
    for listed in [*marks, *(each for of_pattern in temporary for each in of_pattern)]:
        if listed.facts is None or listed.facts.mtime_ns / 1e9 > now - AGE_S:
            continue
        is_attempt = posixpath.basename(listed.path) == UNFINISHED
        path = posixpath.dirname(listed.path) if is_attempt else listed.path
        try:
            remove_attempt(path) if is_attempt else fileio.remove(path)
            _LOG.warning("event=abandoned_removed path=%s", path)
        except (OSError, fileio.NotFoundError) as error:
            # Another run may be removing it too; remaining files only use disk space.
            _LOG.warning("event=abandoned_not_removed path=%s error=%r", path, error)


def remove_attempt(path: str) -> None:
    """Removes a folder of examples if it is there; on a disk, links in it are not followed, as TensorFlow does."""
    if "://" not in path:
        remove_folder(Path(path))
    elif fileio.exists(path):
        fileio.rmtree(path)
