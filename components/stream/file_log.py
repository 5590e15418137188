"""A log of the files that a joiner has read and no longer needs: a segment's state has its length and digest only."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from sangam.components.stream.state import LogPlace, ReadFile
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import sync

_FILES = TypeAdapter(list[ReadFile])
_REMEDY = "restore it from a backup, or remove the folder of segments, and start the online training again"


class FileLog:
    """A log in the folder of segments. A line has the files of one segment; each start begins a new log."""

    def __init__(self, folder: Path, place: LogPlace | None):
        """Takes the place of the last sealed state; what follows it in the log was written before a kill."""
        self._folder, self._place, self._is_begun = folder, place, False

    def read(self) -> list[ReadFile]:
        """Returns the files of the log.

        Raises:
            UserError: the log is not the one that was sealed.
        """
        if self._place is None:
            return []
        path, digest, files = self._folder / self._place.name, "", list[ReadFile]()
        try:
            content = path.read_bytes()[: self._place.bytes]
            for line in content.splitlines(keepends=True):
                digest = _next(digest, line)
                files += _FILES.validate_json(line)
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read (got {error}); {_REMEDY}") from error
        if digest != self._place.sha256:
            raise UserError(f"{path}: differs from the last segment's state (got sha256 {digest}); {_REMEDY}")
        return files

    def append(self, number: int, new: Sequence[ReadFile], kept: Sequence[ReadFile]) -> LogPlace | None:
        """Writes the files that are over since the segment before; returns the place after them.

        Args:
            number: number of the segment.
            new: these files.
            kept: all files that are over, to begin a new log with after a start.
        """
        files = new if self._is_begun else kept
        if not files:
            return self._place if self._is_begun else None
        place = self._place if self._is_begun else None
        place = place or LogPlace(name=f"files-{number:012d}.jsonl", bytes=0, sha256="")
        line = _FILES.dump_json(list(files)) + b"\n"
        path = self._folder / place.name
        with path.open("ab") as file:
            file.truncate(place.bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not place.bytes:
            sync(self._folder)
        self._place, self._is_begun = (
            LogPlace(name=place.name, bytes=place.bytes + len(line), sha256=_next(place.sha256, line)),
            True,
        )
        return self._place

    def sealed(self) -> None:
        """Removes earlier logs, which the sealed state does not name."""
        for path in self._folder.glob("files-*.jsonl"):
            if self._place is None or path.name != self._place.name:
                path.unlink(missing_ok=True)


def _next(digest: str, line: bytes) -> str:
    return hashlib.sha256(digest.encode() + line).hexdigest()
