"""Inspects the head of every file before the run, so that all problems are reported together."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import BinaryIO

from sangam.components.logs.files.listing import THREADS, first_problems
from sangam.components.logs.files.resolve import DataFile
from sangam.components.logs.files.source_files import supplied_twice
from sangam.components.logs.readers import formats
from sangam.components.logs.readers.batches import Inspection
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs, Logs

OpenFile = Callable[[str], BinaryIO]


@dataclass(frozen=True)
class Inspected:
    """The inspected log files.

    Attributes:
        empty: paths of files without rows.
        rows: rows of the other files, by path; None if only reading the file gives them.
    """

    empty: frozenset[str]
    rows: dict[str, int | None]


def inspect(files: Sequence[DataFile], logs: Logs, columns: Sequence[Column], open_file: OpenFile) -> Inspected:
    """Inspects files.

    Raises:
        UserError: with the problems of all files (at most ten in full), including forbidden empty files.
    """
    with ThreadPoolExecutor(THREADS) as threads:
        inspections = list(threads.map(lambda file: _inspected(file, logs, columns, open_file), files))
    may_be_empty = isinstance(logs, DayLogs) and logs.missing_days == "skip"
    problems: list[str] = []
    empty: list[str] = []
    for file, inspection in zip(files, inspections, strict=True):
        problems += inspection.problems
        if inspection.is_empty:
            empty.append(file.path)
            if not may_be_empty and not inspection.problems:
                problems.append(f"{file.path}: has no rows{_empty_hint(logs)}")
    if problems:
        raise UserError("\n".join(first_problems(problems)))
    rows = {file.path: inspection.num_rows for file, inspection in zip(files, inspections, strict=True)}
    return Inspected(frozenset(empty), {path: number for path, number in rows.items() if path not in empty})


def _inspected(file: DataFile, logs: Logs, columns: Sequence[Column], open_file: OpenFile) -> Inspection:
    try:
        with open_file(file.path) as content:
            inspection = formats.inspect(logs, content, file.path, columns)
    except OSError as error:
        return Inspection(problems=(f"{file.path}: cannot be opened (got: {error}); check its permissions",))
    return replace(
        inspection, problems=(*inspection.problems, *supplied_twice(logs, inspection.columns or (), file.path))
    )


def _empty_hint(logs: Logs) -> str:
    if isinstance(logs, DayLogs):
        return "; supply its rows, remove it, or set `missing_days: skip` under data to skip empty files and days"
    return "; supply its rows or remove it"
