"""The local file system alone, for those who would rather not wait for TensorFlow's."""

import glob
import os

from components.example_gen.files import FileFacts


class LocalStorage:
    """See `files.Storage`."""

    def glob(self, pattern: str) -> list[str]:
        """Returns the paths that match, sorted."""
        return sorted(glob.glob(pattern))

    def facts(self, path: str) -> FileFacts | None:
        """Returns size and time of change, None for a folder."""
        if os.path.isdir(path):
            return None
        found = os.stat(path)
        return FileFacts(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns)
