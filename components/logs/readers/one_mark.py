"""A separator of several characters as one, which readers of CSV take."""

import io
from typing import Any, BinaryIO


class OneMark(io.RawIOBase):
    """The content of a file with each separator replaced by `MARK`."""

    MARK = b"\x1f"
    """ASCII's unit separator."""

    def __init__(self, file: BinaryIO, separator: bytes):
        """Takes the file, and a separator of two bytes."""
        self._file, self._separator = file, separator
        self._held = b""
        self._is_end = False

    def readable(self) -> bool:
        """Says that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes; 0 at the end."""
        content = b""
        # A separator may begin at the end of a piece.
        while not content and not self._is_end:
            piece = self._file.read(len(buffer) - len(self._held)) if len(buffer) > len(self._held) else b""
            self._is_end = not piece
            content = (self._held + piece).replace(self._separator, self.MARK)
            self._held = b""
            if not self._is_end and content.endswith(self._separator[:1]):
                content, self._held = content[:-1], content[-1:]
        buffer[: len(content)] = content
        return len(content)
