"""Rows between the stages of a join are in files: Beam groups references to them.

The engine's shuffle holds a few bytes for a slice of rows, so memory does not grow with the rows on any engine, also on
the local one, which keeps a whole shuffle in memory.
"""

import posixpath
import uuid
from types import TracebackType
from typing import Any, NamedTuple

from tfx.dsl.io import fileio

from sangam.components.logs.files.storage import open_file


class Ref(NamedTuple):
    """Location of bytes in a file."""

    path: str
    offset: int
    length: int


class SpillWriter:
    """Writes a separate file, so that a retry does not overwrite the first try's."""

    def __init__(self, folder: str):
        """Takes the folder, which all workers can read."""
        self._path = posixpath.join(folder, f"{uuid.uuid4().hex}.spill")
        self._file: Any = None
        self._offset = 0

    def __enter__(self) -> "SpillWriter":
        self._file = fileio.open(self._path, "wb")
        return self

    def write(self, content: bytes) -> Ref:
        """Appends bytes; they can be read once the file is closed."""
        self._file.write(content)
        self._offset += len(content)
        return Ref(self._path, self._offset - len(content), len(content))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_spilled(ref: Ref) -> bytes:
    """Returns the bytes."""
    with open_file(ref.path) as file:
        file.seek(ref.offset)
        return file.read(ref.length)
