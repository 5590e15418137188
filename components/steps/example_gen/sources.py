"""Groups log files for reading and writing: examples stay in the order of the logs, in files of similar size."""

from collections.abc import Mapping
from dataclasses import dataclass

from components.steps.example_gen.files.resolve import DataFile, Files

_ROWS_PER_FILE, _BYTES_PER_FILE = 50_000, 16 * 2**20
_MAX_FILES = 64
"""Most files of a split, plus one for each day."""


@dataclass(frozen=True)
class Source:
    """Consecutive log files of one split and day, which one worker reads and writes in order.

    Attributes:
        split: of its rows.
        day: YYYY-MM-DD, None for logs without dates.
        number: index within the split.
        paths: of the log files.
        rows_per_file: most examples in a written file.
    """

    split: str
    day: str | None
    number: int
    paths: tuple[str, ...]
    rows_per_file: int


def sources(files: Files, rows: Mapping[str, int | None]) -> tuple[Source, ...]:
    """Groups files into sources.

    Args:
        files: those with rows, in the order of the logs.
        rows: number of rows by path, None if the format does not say without reading them.
    """
    result: list[Source] = []
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
        result += [
            Source(split, group[0].day, number, tuple(file.path for file in group), rows_per_file)
            for number, group in enumerate(together)
        ]
    return tuple(result)


def _rows(file: DataFile, num_rows: int | None) -> int:
    return num_rows if num_rows is not None else file.facts.size_bytes * _ROWS_PER_FILE // _BYTES_PER_FILE
