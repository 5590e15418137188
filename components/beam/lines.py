"""Few lines of text from Beam's workers, in one file below any path: Beam's writer reads brackets as a pattern."""

import posixpath
import uuid
from collections.abc import Iterable

import apache_beam as beam
from tfx.dsl.io import fileio


class WriteLines(beam.PTransform):
    """Writes texts without line breaks to one file; no file without texts."""

    def __init__(self, path: str):
        """Takes the path of the file."""
        super().__init__()
        self._path = path

    def expand(self, lines: beam.PCollection) -> beam.PCollection:
        """Gathers all lines on one worker."""
        return lines | beam.WithKeys(0) | beam.GroupByKey() | beam.Values() | beam.Map(_write, self._path)


def _write(lines: Iterable[str], path: str) -> None:
    # Renamed when whole: a worker may be tried again.
    fileio.makedirs(posixpath.dirname(path))
    temporary = f"{path}.{uuid.uuid4().hex}"
    with fileio.open(temporary, "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
    fileio.rename(temporary, path, overwrite=True)


def read_lines(path: str) -> list[str]:
    """Returns the lines of `WriteLines`."""
    if not fileio.exists(path):
        return []
    with fileio.open(path, "r") as file:
        text: str = file.read()
    # Not splitlines: a line may have other separators of Unicode.
    return [line for line in text.split("\n") if line]
