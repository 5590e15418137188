"""Files wherever TFX can reach them: the only module of ingestion that touches a file system."""

import io
from typing import Any, BinaryIO, cast

from tfx.dsl.io import fileio

from components.example_gen.files import FileFacts


class TfxStorage:
    """The file systems of tfx.dsl.io.fileio, local paths included."""

    def glob(self, pattern: str) -> list[str]:
        """Returns the paths that match, sorted."""
        return sorted(str(path) for path in fileio.glob(pattern))

    def facts(self, path: str) -> FileFacts | None:
        """Returns size and time of change, None for a folder."""
        if fileio.isdir(path):
            return None
        found = fileio.stat(path)
        # TensorFlow's file systems and Python's name the same two facts differently.
        if hasattr(found, "mtime_nsec"):
            return FileFacts(size_bytes=found.length, mtime_ns=found.mtime_nsec)
        return FileFacts(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns)


def open_file(path: str) -> BinaryIO:
    """Opens a file for reading bytes."""
    if "://" not in path:
        return open(path, "rb")
    return remote_file(path)


def remote_file(path: str) -> BinaryIO:
    """Opens a file of any file system. pyarrow and gzip need a whole file object, which TensorFlow's GFile is not."""
    return cast(BinaryIO, io.BufferedReader(_RawFile(fileio.open(path, "rb")), buffer_size=2**20))


class _RawFile(io.RawIOBase):
    def __init__(self, file: Any):
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
