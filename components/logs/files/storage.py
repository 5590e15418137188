"""Lists and opens files in any file system that TFX can reach."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from apache_beam.io.filesystems import FileSystems
from tfx.dsl.io import fileio

from sangam.components.logs.files.light_storage import LightStorage, open_light
from sangam.components.logs.files.listing import THREADS, FileFacts, Listed
from sangam.components.object_stores import is_stored, whole_file


class TfxStorage:
    """This machine, object stores, Beam's file systems, and where Beam has none for a scheme those of TFX."""

    def match(self, patterns: Sequence[str]) -> list[list[Listed]]:
        """Returns the matches of each pattern, by path."""
        light = [pattern for pattern in patterns if not _is_remote(pattern)]
        listed = dict(zip(light, LightStorage().match(light), strict=True))
        remote = [pattern for pattern in patterns if _is_remote(pattern)]
        with ThreadPoolExecutor(THREADS) as threads:
            listed |= zip(remote, threads.map(_listed, remote), strict=True)
        return [listed[pattern] for pattern in patterns]


def _is_remote(path: str) -> bool:
    return "://" in path and not is_stored(path)


def _listed(pattern: str) -> list[Listed]:
    """Lists a remote file system, where a name that ends in a slash may represent a folder."""
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
    return whole_file(fileio.open(path, "rb")) if _is_remote(path) else open_light(path)
