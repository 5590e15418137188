"""Writes the rows of a table by day or split, unless an earlier run has, and directs ingestion there.

    <root>/tables/<ranker>/<key>.json          written last: the folder, and what became of the rows
    <root>/tables/<ranker>/<key>-<attempt>/    the rows: <day or split>/part-00000.parquet

The key covers the content of the files, what is read of them, and the code.
"""

import dataclasses
import datetime
import hashlib
import json
import logging
import posixpath
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from tfx.dsl.io import fileio

from sangam.components.examples.day_results import read_result, write_result
from sangam.components.logs.files.digests import digests_of, sha256_of
from sangam.components.logs.files.listing import Storage, first_problems
from sangam.components.logs.files.resolve import DataFile
from sangam.components.logs.files.source_files import supplied_twice
from sangam.components.logs.files.storage import open_file
from sangam.components.logs.readers import formats
from sangam.components.logs.request import Request, relative
from sangam.components.logs.rows.conversion import convert
from sangam.components.logs.rows.equal_files import notes_on_equal_files, of_equal_sizes
from sangam.components.logs.rows.times import TimeCounts, check_times, times_problem
from sangam.components.logs.tables.delta import delta_version
from sangam.components.logs.tables.files import column_of, files_of, range_of, time_column, times_in
from sangam.components.logs.tables.splitting import Keys, PartsOf, parts_of
from sangam.components.logs.tables.writing import PartsWriter, stored
from sangam.schemas.contracts.example_files import DIGEST_DIGITS
from sangam.schemas.contracts.root import Root
from sangam.schemas.derived.days import parse_day
from sangam.schemas.derived.sources import columns_read_of_log
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs, Parts, TableLogs

_LOG = logging.getLogger(__name__)
_MOST_KEPT = 3
"""Number of written tables that stay: other dates may be running on them."""


class Written(BaseModel):
    """A table whose rows are written.

    Attributes:
        folder: name of the folder with the rows.
        rows: rows by day or split.
        dropped: rows in no part, by reason.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = 1
    folder: str
    rows: dict[str, int]
    dropped: dict[str, int] = {}


def with_version(request: Request) -> Request:
    """Returns the request with the newest version of a Delta Lake table as the one to read; others are unchanged."""
    table = request.table
    if table is None or table.format != "delta" or table.version is not None:
        return request
    newest = delta_version(posixpath.join(request.data_root, table.pattern), None).number
    return replace(request, table=table.model_copy(update={"version": newest}))


def with_parts(request: Request, storage: Storage) -> Request:
    """Returns the request with the written rows as its logs; other logs than a table are unchanged.

    Raises:
        UserError: no file, or one that does not fit the spec; too many rows without a usable time; no rows to evaluate
            on.
    """
    table = request.table
    if table is None:
        return request
    files = files_of(table, request.data_root, storage)
    root = Root(request.pipeline_root).tables(request.name)
    identities, digests = _identities(request, files)
    equal = notes_on_equal_files(files, digests, table, open_file)
    key = _key(request, table, files, identities)[:DIGEST_DIGITS]
    pointer = posixpath.join(root, f"{key}.json")
    content = read_result(pointer)
    if content is None:
        written = _write(request, table, files, posixpath.join(root, f"{key}-{uuid.uuid4().hex}"))
        _require_unchanged(files, files_of(table, request.data_root, storage))
        write_result(pointer, written.model_dump_json(indent=1).encode() + b"\n")
        _remove_old(root, keep=key)
    else:
        written = Written.model_validate_json(content)
    place = posixpath.join(request.data_root, table.pattern)
    return replace(
        request,
        logs=_narrowed(request.logs, request.date, written, place),
        data_root=posixpath.join(root, written.folder),
        notes=(*_notes(written, place, table), *equal),
    )


@dataclass
class _Counts:
    num_rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    times: TimeCounts = field(default_factory=TimeCounts)


def _write(request: Request, table: TableLogs, files: Sequence[DataFile], folder: str) -> Written:
    _LOG.info("event=writing_table files=%d folder=%s", len(files), folder)
    read = _columns_of(request)
    own = _own_columns(table, read, files)
    _inspect(table, files, [*read, *own])
    parts = parts_of(table, lambda: times_in(table, files, open_file))
    writer, counts = PartsWriter(folder), _Counts()
    try:
        fileio.makedirs(folder)
        for file in files:
            for batch, names in _rows_of(request, table, file, own, parts, counts):
                writer.add(batch, names)
        writer.finish()
        _judge(table, counts, posixpath.join(request.data_root, table.pattern))
    except BaseException:
        fileio.rmtree(folder)
        raise
    return Written(folder=posixpath.basename(folder), rows=dict(writer.rows), dropped=dict(counts.dropped))


def _rows_of(
    request: Request, table: TableLogs, file: DataFile, own: Sequence[Column], parts: PartsOf, counts: _Counts
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.object_]]]:
    """Yields the rows of a file that have a part, with its name."""
    read = _columns_of(request)
    first_row, names = 0, [column.name for column in read]
    with open_file(file.path) as opened:
        for rows in formats.read(table, opened, file.path, [*read, *own]):
            batch = rows.batch
            # Its mistakes name the file, which the written rows no longer know.
            convert(batch.select(names), read, file.path, first_row)
            keep, times = np.ones(batch.num_rows, bool), None
            if table.time is not None:
                column = time_column(table)
                checked = check_times(column_of(batch, table.time), column, range_of(table))
                counts.times += checked.counts
                is_known = np.asarray(checked.values.is_valid())
                times = np.asarray(checked.values.fill_null(0))
                keep = is_known & ~checked.is_outside
                _count(counts, f"no time in column '{table.time}'", ~is_known)
                outside = f"time in column '{table.time}' outside {range_of(table)}"
                _count(counts, outside, is_known & checked.is_outside)
            counts.num_rows += batch.num_rows + rows.num_unreadable
            if rows.num_unreadable:
                counts.dropped["not a tf.Example"] += rows.num_unreadable
            values = column_of(batch, table.by) if table.by else None
            keys = Keys(times, values, first_row, relative(file.path, request), batch.num_rows)
            first_row += batch.num_rows
            # Outside rows have no part; any is computed, and not used.
            of_rows = parts(keys)
            yield stored(batch, read).filter(pa.array(keep)), of_rows[keep]


def _columns_of(request: Request) -> list[Column]:
    """Returns the columns of the table that ingestion reads."""
    return columns_read_of_log(request.logs, request.columns)


def _own_columns(table: TableLogs, columns: Sequence[Column], files: Sequence[DataFile]) -> list[Column]:
    """Returns the columns that only the split reads."""
    known = {column.name for column in columns}
    if table.time:
        return [time_column(table)] if table.time not in known else []
    return [_key_column(table, files)] if table.by and table.by not in known else []


def _key_column(table: TableLogs, files: Sequence[DataFile]) -> Column:
    """Returns the column `by` with the type that files with types give it."""
    assert table.by
    number = Column(table.by, "int", is_required=False)
    if table.format in ("parquet", "delta"):
        with open_file(files[0].path) as opened:
            if not formats.inspect(table, opened, files[0].path, [number]).problems:
                return number
    return Column(table.by, "string", is_required=False)


def _count(counts: _Counts, reason: str, mask: NDArray[np.bool_]) -> None:
    if mask.any():
        counts.dropped[reason] += int(mask.sum())


def _inspect(table: TableLogs, files: Sequence[DataFile], columns: Sequence[Column]) -> None:
    problems: list[str] = []
    for file in files:
        with open_file(file.path) as opened:
            found = formats.inspect(table, opened, file.path, columns)
        problems += [*found.problems, *supplied_twice(table, found.columns or (), file.path)]
    if problems:
        raise UserError("\n".join(first_problems(problems)))


def _judge(table: TableLogs, counts: _Counts, place: str) -> None:
    if table.time:
        problem = times_problem(time_column(table), counts.times, range_of(table), table.times.max_outside_fraction)
        if problem:
            raise UserError(f"{place}: {problem}")
    lost = counts.dropped.total()
    if lost > table.max_dropped_fraction * counts.num_rows:
        reasons = ", ".join(f"{reason}: {number}" for reason, number in sorted(counts.dropped.items()))
        raise UserError(
            f"{place}: {lost} of {counts.num_rows} rows are in no part (got {reasons}); correct the logs, or raise "
            "data.max_dropped_fraction"
        )
    if not counts.num_rows:
        raise UserError(f"{place}: no rows; supply them")


def _narrowed(logs: Parts, date: str, written: Written, place: str) -> Parts:
    """Returns the logs with no more train days than the table has before the evaluation days."""
    if not isinstance(logs, DayLogs):
        return logs
    days = sorted(written.rows)
    first_eval = parse_day(date) - datetime.timedelta(days=logs.eval_days - 1)
    if not any(first_eval.isoformat() <= day <= date for day in days):
        raise UserError(
            f"date: {place} has no rows on the evaluation days (got {date}; it has rows from {days[0]} to {days[-1]}); "
            f"give a date among them, such as --date {days[-1]}"
        )
    available = max(1, logs.validation_days + 1, (first_eval - parse_day(days[0])).days)
    return logs.model_copy(update={"train_days": min(logs.train_days, available)})


def _notes(written: Written, place: str, table: TableLogs) -> tuple[str, ...]:
    version = (
        [f"logs: {place} as of version {table.version} of the Delta Lake table"] if table.format == "delta" else []
    )
    dropped = [f"{number} rows of {place} are left out: {reason}" for reason, number in sorted(written.dropped.items())]
    if table.time is None and table.by is None:
        dropped.append(
            "the rows to evaluate on are drawn at random: they are of the same time and the same users as those "
            "trained on, so that metrics are better than on new days (data.time, data.by)"
        )
    elif table.time is None:
        dropped.append(
            f"the rows to evaluate on are drawn by {table.by}, and are of the same time as those trained on, so that "
            "metrics may be better than on new days (data.time)"
        )
    return (*version, *dropped)


def _identities(request: Request, files: Sequence[DataFile]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Returns what tells a change of each file, and the digests of those that may equal another."""
    if "://" in request.pipeline_root:
        # Without a cache of digests, every file would be read.
        told = {file.path: f"{file.facts.size_bytes} {file.facts.mtime_ns}" for file in files}
        return told, sha256_of(of_equal_sizes(files), open_file)
    digests = digests_of(files, request.pipeline_root, open_file)
    return digests, digests


def _key(request: Request, table: TableLogs, files: Sequence[DataFile], identities: Mapping[str, str]) -> str:
    # Train days and the treatment of missing days select among what is written.
    logs = table.model_dump(mode="json", exclude={"train_days", "missing_days", "equal_files"})
    document = {
        "files": [[relative(file.path, request), identities[file.path]] for file in files],
        "logs": logs,
        "columns": [dataclasses.asdict(column) for column in _columns_of(request)],
        "code": request.code,
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _require_unchanged(before: Sequence[DataFile], after: Sequence[DataFile]) -> None:
    changed = sorted({file.path for file in before} ^ {file.path for file in after})
    known = {file.path: file.facts for file in after}
    changed += [file.path for file in before if known.get(file.path, file.facts) != file.facts]
    if changed:
        raise UserError(f"{changed[0]}: changed while it was read; run it again when the file is complete")


def _remove_old(root: str, keep: str) -> None:
    """Removes the rows of earlier contents of the table, but for the newest."""
    pointers = [name for name in fileio.listdir(root) if name.endswith(".json") and name != f"{keep}.json"]
    by_age = sorted(pointers, key=lambda name: fileio.stat(posixpath.join(root, name)).mtime_nsec, reverse=True)
    for name in by_age[_MOST_KEPT - 1 :]:
        content = read_result(posixpath.join(root, name))
        fileio.remove(posixpath.join(root, name))
        if content is not None:
            fileio.rmtree(posixpath.join(root, Written.model_validate_json(content).folder))
