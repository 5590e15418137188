"""Which log files are written together: examples stay in the order of the logs, and their files are of one size."""

from collections.abc import Mapping
from dataclasses import dataclass

from components.steps.example_gen.files.resolve import DataFile, Files

_ROWS_PER_FILE, _BYTES_PER_FILE = 50_000, 16 * 2**20
_MAX_FILES = 64
"""Of a split, but for one more a day."""


@dataclass(frozen=True)
class Source:
    """Neighboring log files of one split and day: what one worker reads, and writes in its order.

    Attributes:
        split: that the rows go to.
        day: YYYY-MM-DD, None for logs without dates.
        number: among those of the split, from 0.
        paths: of the log files.
        rows_per_file: after so many examples the next file is begun.
    """

    split: str
    day: str | None
    number: int
    paths: tuple[str, ...]
    rows_per_file: int


def sources(files: Files, rows: Mapping[str, int | None]) -> tuple[Source, ...]:
    """Returns all files, cut into sources.

    Args:
        files: that hold rows, in the order of the logs.
        rows: of each path, None where the format does not tell before it is read.
    """
    found: list[Source] = []
    for split in files.splits:
        of_split = files.of_split(split)
        sizes = [_rows(file, rows[file.path]) for file in of_split]
        rows_per_file = max(_ROWS_PER_FILE, -(-sum(sizes) // _MAX_FILES))
        together: list[list[DataFile]] = []
        room = 0
        for file, size in zip(of_split, sizes, strict=True):
            if not together or together[-1][0].day != file.day or size > room:
                together.append([])
                room = rows_per_file
            together[-1].append(file)
            room -= size
        found += [
            Source(split, of_source[0].day, number, tuple(file.path for file in of_source), rows_per_file)
            for number, of_source in enumerate(together)
        ]
    return tuple(found)


def _rows(file: DataFile, known: int | None) -> int:
    return known if known is not None else file.facts.size_bytes * _ROWS_PER_FILE // _BYTES_PER_FILE
