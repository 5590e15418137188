"""Inspects the head of every file before the run, so that all problems are reported together."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

from components.steps.example_gen.files.listing import THREADS, first_problems
from components.steps.example_gen.files.resolve import DataFile, Files, without
from components.steps.example_gen.readers import formats
from components.steps.example_gen.readers.batches import Inspection
from components.steps.example_gen.sources import Source, sources
from schemas.derived.columns import Column
from schemas.errors import UserError
from schemas.spec.data import DayLogs, Logs

OpenFile = Callable[[str], BinaryIO]


@dataclass(frozen=True)
class Plan:
    """The files to read.

    Attributes:
        files: those with rows.
        sources: the same files, grouped as they are read and written.
    """

    files: Files
    sources: tuple[Source, ...]


def plan(files: Files, logs: Logs, columns: Sequence[Column], open_file: OpenFile) -> Plan:
    """Inspects every file and returns those to read.

    Raises:
        UserError: with the problems of all files (at most ten in full), or the days that have no rows.
    """
    with ThreadPoolExecutor(THREADS) as threads:
        inspections = list(threads.map(lambda file: _inspected(file, logs, columns, open_file), files.files))
    may_be_empty = isinstance(logs, DayLogs) and logs.missing_days == "skip"
    problems: list[str] = []
    empty: list[str] = []
    for file, inspection in zip(files.files, inspections, strict=True):
        problems += inspection.problems
        if inspection.is_empty:
            empty.append(file.path)
            if not may_be_empty and not inspection.problems:
                problems.append(f"{file.path}: has no rows{_empty_hint(logs)}")
    if problems:
        raise UserError("\n".join(first_problems(problems)))
    kept = without(files, logs, empty)
    rows = {file.path: inspection.num_rows for file, inspection in zip(files.files, inspections, strict=True)}
    return Plan(kept, sources(kept, rows))


def _inspected(file: DataFile, logs: Logs, columns: Sequence[Column], open_file: OpenFile) -> Inspection:
    try:
        with open_file(file.path) as content:
            return formats.inspect(logs, content, file.path, columns)
    except OSError as error:
        return Inspection(problems=(f"{file.path}: cannot be opened (got: {error}); check its permissions",))


def _empty_hint(logs: Logs) -> str:
    if isinstance(logs, DayLogs):
        return "; supply its rows, remove it, or set `missing_days: skip` under data to skip empty files and days"
    return "; supply its rows or remove it"
