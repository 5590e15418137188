"""The cheap look at every file before the run, so that mistakes are told plainly and together."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

from components.example_gen.files import DataFile, Files, without
from components.example_gen.listing import THREADS, first_problems
from components.example_gen.readers import formats
from components.example_gen.readers.batches import Inspection
from schemas.columns import Column
from schemas.data import DayLogs, Logs
from schemas.errors import UserError

_MIN_SHARDS, _MAX_SHARDS = 2, 64
_ROWS_PER_SHARD, _BYTES_PER_SHARD = 50_000, 16 * 2**20

OpenFile = Callable[[str], BinaryIO]


@dataclass(frozen=True)
class Plan:
    """What is to be read, after a look at every file.

    Attributes:
        files: that hold rows.
        num_shards: of each split's output.
    """

    files: Files
    num_shards: dict[str, int]


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
    rows: dict[str, list[int | None]] = {split: [] for split in files.splits}
    sizes = dict.fromkeys(files.splits, 0)
    for file, inspection in zip(files.files, found, strict=True):
        problems += inspection.problems
        if inspection.is_empty:
            empty.append(file.path)
            if not may_be_empty and not inspection.problems:
                problems.append(f"{file.path}: has no rows{_empty_hint(logs)}")
        rows[file.split].append(inspection.num_rows)
        sizes[file.split] += file.facts.size_bytes
    if problems:
        raise UserError("\n".join(first_problems(problems)))
    return Plan(without(files, logs, empty), {split: _num_shards(rows[split], sizes[split]) for split in files.splits})


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


def _num_shards(rows: Sequence[int | None], size_bytes: int) -> int:
    """Returns how many files to write: by the number of rows where the format tells it, else by the files' size."""
    known = [count for count in rows if count is not None]
    wanted = sum(known) // _ROWS_PER_SHARD if len(known) == len(rows) else size_bytes // _BYTES_PER_SHARD
    return min(max(wanted, _MIN_SHARDS), _MAX_SHARDS)
