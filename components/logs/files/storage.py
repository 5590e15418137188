"""Lists and opens files in any file system that TFX can reach."""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, cast

from apache_beam.io.filesystems import FileSystems
from tfx.dsl.io import fileio

from sangam.components.logs.files.listing import THREADS, FileFacts, Listed
from sangam.components.logs.files.local_files import LocalStorage, open_local


class TfxStorage:
    """The local file system, Beam's, and where Beam has none for a scheme, those of tfx.dsl.io.fileio."""

    def match(self, patterns: Sequence[str]) -> list[list[Listed]]:
        """Returns the matches of each pattern, by path."""
        local = [pattern for pattern in patterns if not _is_remote(pattern)]
        listed = dict(zip(local, LocalStorage().match(local), strict=True))
        remote = [pattern for pattern in patterns if _is_remote(pattern)]
        with ThreadPoolExecutor(THREADS) as threads:
            listed |= zip(remote, threads.map(_listed, remote), strict=True)
        return [listed[pattern] for pattern in patterns]


def _is_remote(path: str) -> bool:
    return "://" in path


def _listed(pattern: str) -> list[Listed]:
    """Lists an object store, where a name that ends in a slash represents a folder."""
    try:
        [result] = FileSystems.match([pattern])
    except ValueError:
        # Beam does not support this scheme; TensorFlow's file systems return sizes and times one by one.
        paths = sorted(str(path) for path in fileio.glob(pattern))
        with ThreadPoolExecutor(THREADS) as threads:
            facts = threads.map(_facts, paths)
            return [Listed(path, entries) for path, entries in zip(paths, facts, strict=True) if entries]
    entries = sorted(result.metadata_list, key=lambda each: each.path)
    return [
        Listed(each.path, FileFacts(each.size_in_bytes, round(each.last_updated_in_seconds * 10**9)))
        for each in entries
        if not each.path.endswith("/")
    ]


def _facts(path: str) -> FileFacts | None:
    if fileio.isdir(path):
        return None
    status = fileio.stat(path)
    return FileFacts(size_bytes=status.length, mtime_ns=status.mtime_nsec)


def open_file(path: str) -> BinaryIO:
    """Opens a file for reading bytes."""
    return remote_file(path) if _is_remote(path) else open_local(path)


def remote_file(path: str) -> BinaryIO:
    """Opens a remote file as a complete file object, which pyarrow and gzip need and TensorFlow's GFile is not."""
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
