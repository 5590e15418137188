"""Folders whose names libraries take for patterns."""

import contextlib
import os
import re
from collections.abc import Iterator

_WILDCARD = re.compile(r"[*?[\\]")


@contextlib.contextmanager
def without_wildcards(folder: str) -> Iterator[str]:
    """Yields another path of a local folder if its own has wildcards, by which TensorFlow would search for a model.

    The path is valid in this process, while the context is open.
    """
    if "://" in folder or not _WILDCARD.search(folder):
        yield folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
