"""Writes the examples of a source to as many files as they need."""

import posixpath
from types import TracebackType

import tensorflow as tf

from components.steps.example_gen.sources import Source
from schemas.contracts.example_files import file_name


class ExampleWriter:
    """Writes serialized tf.Examples to at least one file, which may be empty.

    Names and content depend on the source alone: a second try writes the same files as the first.
    """

    def __init__(self, folder: str, source: Source):
        self._folder, self._source = folder, source
        self._parts, self._rows = 0, 0
        self._begin()

    def _begin(self) -> None:
        name = file_name(self._source.day, self._source.number, self._parts)
        self._file = tf.io.TFRecordWriter(posixpath.join(self._folder, name), "GZIP")
        self._parts, self._rows = self._parts + 1, 0

    def write(self, example: bytes) -> None:
        """Writes one example."""
        if self._rows == self._source.rows_per_file:
            self._file.close()
            self._begin()
        self._file.write(example)
        self._rows += 1

    def __enter__(self) -> "ExampleWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
