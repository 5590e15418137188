"""A separator of several characters as one, which readers of CSV take."""

import io
from typing import Any, BinaryIO

_PIECE_BYTES = 2**16


class OneMark(io.RawIOBase):
    """The content of a file with each separator replaced by `MARK`."""

    MARK = b"\x1f"
    """ASCII's unit separator."""

    def __init__(self, file: BinaryIO, separator: bytes):
        """Takes the file, and a separator of two bytes."""
        self._file, self._separator = file, separator
        self._held = self._ready = b""
        self._is_end = False

    def readable(self) -> bool:
        """Says that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes; 0 at the end."""
        while not self._ready and not self._is_end:
            piece = self._file.read(_PIECE_BYTES)
            self._is_end = not piece
            self._ready = (self._held + piece).replace(self._separator, self.MARK)
            self._held = b""
            # A separator may begin at the end of a piece.
            if not self._is_end and self._ready.endswith(self._separator[:1]):
                self._ready, self._held = self._ready[:-1], self._ready[-1:]
        content, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)
