"""Groups log files for reading and writing: examples stay in the order of the logs, in files of similar size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sangam.components.logs.files.resolve import DataFile

_ROWS_PER_GROUP, _BYTES_PER_GROUP = 50_000, 16 * 2**20
_MAX_GROUPS = 64
"""Approximate maximum of groups of a day, for any number of files."""


@dataclass(frozen=True)
class FileGroup:
    """Consecutive log files of one split and day, which one worker reads and writes in order.

    Attributes:
        split: split of its rows.
        day: YYYY-MM-DD, None for logs without dates.
        number: index within the day.
        paths: paths of the log files.
        folder: folder for the files of examples.
    """

    split: str
    day: str | None
    number: int
    paths: tuple[str, ...]
    folder: str


def file_groups(files: Sequence[DataFile], rows: Mapping[str, int | None], folder: str) -> list[FileGroup]:
    """Groups the files of one split and day.

    Args:
        files: files with rows, in the order of the logs.
        rows: number of rows by path; None if only reading the file gives it.
        folder: folder for the files of examples.
    """
    sizes = [_rows(file, rows[file.path]) for file in files]
    most = max(_ROWS_PER_GROUP, -(-sum(sizes) // _MAX_GROUPS))
    together: list[list[DataFile]] = []
    room = 0
    for file, size in zip(files, sizes, strict=True):
        if not together or size > room:
            together.append([])
            room = most
        together[-1].append(file)
        room -= size
    return [
        FileGroup(group[0].split, group[0].day, number, tuple(file.path for file in group), folder)
        for number, group in enumerate(together)
    ]


def _rows(file: DataFile, num_rows: int | None) -> int:
    return num_rows if num_rows is not None else file.facts.size_bytes * _ROWS_PER_GROUP // _BYTES_PER_GROUP
