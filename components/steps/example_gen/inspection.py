"""The cheap look at every file before the run, so that mistakes are told plainly and together."""

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
    """What is to be read, after a look at every file.

    Attributes:
        files: that hold rows.
        sources: the same files, as they are read and written together.
    """

    files: Files
    sources: tuple[Source, ...]


def plan(files: Files, logs: Logs, columns: Sequence[Column], open_file: OpenFile) -> Plan:
    """Looks at every file and returns those to read.

    Raises:
        UserError: with the problems of all files (the first ten spelled out), or the days that have no rows.
    """
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(lambda file: _inspected(file, logs, columns, open_file), files.files))
    may_be_empty = isinstance(logs, DayLogs) and logs.missing_days == "skip"
    problems: list[str] = []
    empty: list[str] = []
    for file, inspection in zip(files.files, found, strict=True):
        problems += inspection.problems
        if inspection.is_empty:
            empty.append(file.path)
            if not may_be_empty and not inspection.problems:
                problems.append(f"{file.path}: has no rows{_empty_hint(logs)}")
    if problems:
        raise UserError("\n".join(first_problems(problems)))
    kept = without(files, logs, empty)
    rows = {file.path: inspection.num_rows for file, inspection in zip(files.files, found, strict=True)}
    return Plan(kept, sources(kept, rows))


def _inspected(file: DataFile, logs: Logs, columns: Sequence[Column], open_file: OpenFile) -> Inspection:
    try:
        with open_file(file.path) as content:
            return formats.inspect(logs, content, file.path, columns)
    except OSError as error:
        return Inspection(problems=(f"{file.path}: cannot be opened (got: {error}); check its permissions",))


def _empty_hint(logs: Logs) -> str:
    if isinstance(logs, DayLogs):
        return (
            "; bring its rows, remove it, or declare `missing_days: skip` under data to pass over empty files and days"
        )
    return "; bring its rows or remove it"
