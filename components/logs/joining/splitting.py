"""Reads a file of either side and cuts it into buckets by its keys."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from sangam.components.logs.files.source_files import logs_of, supplied_twice
from sangam.components.logs.joining.canonical import canonical, canonical_type
from sangam.components.logs.joining.keys import buckets
from sangam.components.logs.joining.plan import JoinFile
from sangam.components.logs.joining.sides import DAY, FILE, KEY, ROW, TIME, VALUE
from sangam.components.logs.joining.slices import cut, single
from sangam.components.logs.readers import formats
from sangam.components.logs.rows.times import TimeCounts, check_times, ranges_of
from sangam.schemas.derived.sources import (
    columns_of_source,
    keys_of_log,
    keys_of_source,
    time_of_source,
    values_of_source,
)
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.sources import Source

_ROWS_AT_ONCE = 2**17


class FileReport(BaseModel):
    """The result of reading a source's file; for the main log, only path and error.

    Attributes:
        source: name; empty for the main log.
        path: path of the file.
        rows: readable records.
        unreadable: records left out.
        columns: columns of at least one record.
        times: times of the source's column of times.
        error: why reading stopped.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    path: str
    rows: int = 0
    unreadable: int = 0
    columns: frozenset[str] = frozenset()
    times: TimeCounts = TimeCounts()
    error: str | None = None


Slice = tuple[str, int, bytes]
"""Name of a source, bucket, and rows of either side."""


class Splitter:
    """Cuts files into slices, and fills in a report.

    A row is identified by its index among the readable rows of its file, as everywhere in ingestion.
    """

    def __init__(self, logs: DayLogs, columns: Sequence[Column], event_time: str, num_buckets: Mapping[str, int]):
        """Takes the spec's data section, the columns of the inputs, and the number of buckets of each source."""
        self._logs, self._columns, self._num_buckets = logs, columns, num_buckets
        self._event_time = Column(event_time, "int", is_required=False, time="event")

    def split(self, file: JoinFile, opened: BinaryIO, report: FileReport) -> Iterator[Slice | FileReport]:
        """Yields the slices of a file, and in the end its report.

        Raises:
            UserError: for a file that does not fit the spec.
        """
        sources = {file.source: self._logs.sources[file.source]} if file.source else self._logs.sources
        logs = logs_of(self._logs, sources[file.source]) if file.source else self._logs
        read = self._read_columns(file)
        waiting: list[pa.RecordBatch] = []
        for rows in formats.read(logs, opened, file.path, read):
            if twice := supplied_twice(logs, rows.unread, file.path):
                raise UserError("\n".join(twice))
            arrays = canonical(rows.batch, read, file.path)
            report = self._counted(report, file, arrays, rows.batch.num_rows, rows.num_unreadable, rows.absent)
            numbers = np.arange(report.rows - rows.batch.num_rows, report.rows)
            # With a prefix: a column of the logs may have any name.
            names = [ROW, *(VALUE + name for name in arrays)]
            waiting.append(pa.RecordBatch.from_arrays([pa.array(numbers), *arrays.values()], names))
            if sum(batch.num_rows for batch in waiting) >= _ROWS_AT_ONCE:
                yield from self._slices(file, sources, single(waiting))
                waiting = []
        if waiting:
            yield from self._slices(file, sources, single(waiting))
        yield report

    def _read_columns(self, file: JoinFile) -> list[Column]:
        if file.source:
            return columns_of_source(self._logs.sources[file.source], self._columns)
        keys = (column for source in self._logs.sources.values() for column in keys_of_log(source))
        return list({column.name: column for column in (*keys, self._event_time)}.values())

    def _counted(
        self,
        report: FileReport,
        file: JoinFile,
        arrays: Mapping[str, pa.Array],
        num_rows: int,
        num_unreadable: int,
        absent: frozenset[str],
    ) -> FileReport:
        times = report.times
        if file.source:
            time = time_of_source(self._logs.sources[file.source])
            assert time.time is not None
            times = times + check_times(arrays[time.name], time, ranges_of(self._logs, file.day)[time.time]).counts
        return report.model_copy(
            update={
                "rows": report.rows + num_rows,
                "unreadable": report.unreadable + num_unreadable,
                "columns": report.columns | (arrays.keys() - absent),
                "times": times,
            }
        )

    def _slices(self, file: JoinFile, sources: Mapping[str, Source], batch: pa.RecordBatch) -> Iterator[Slice]:
        day = datetime.date.fromisoformat(file.day).toordinal()
        for name, source in sorted(sources.items()):
            keys = keys_of_source(source) if file.source else keys_of_log(source)
            values = values_of_source(source, self._columns) if file.source else []
            time = source.time if file.source else self._event_time.name
            arrays = [
                pa.array(np.full(batch.num_rows, day, np.int32)),
                pa.array(np.full(batch.num_rows, file.number, np.int32)),
                *(_column(batch, each) for each in (ROW, VALUE + time)),
                *(_column(batch, VALUE + column.name) for column in (*keys, *values)),
            ]
            one = pa.RecordBatch.from_arrays(arrays, _schema(keys, values).names)
            numbers = buckets([_column(batch, VALUE + column.name) for column in keys], self._num_buckets[name])
            for bucket, content in cut(one, numbers):
                yield name, bucket, content


def source_schema(source: Source, columns: Sequence[Column]) -> pa.Schema:
    """Returns the columns of a source's slices."""
    return _schema(keys_of_source(source), values_of_source(source, columns))


def row_schema(source: Source) -> pa.Schema:
    """Returns the columns of the main log's slices."""
    return _schema(keys_of_log(source), [])


def _schema(keys: Sequence[Column], values: Sequence[Column]) -> pa.Schema:
    return pa.schema(
        [(DAY, pa.int32()), (FILE, pa.int32()), (ROW, pa.int64()), (TIME, pa.int64())]
        + [(f"{KEY}{index}", canonical_type(column)) for index, column in enumerate(keys)]
        + [(VALUE + column.name, canonical_type(column)) for column in values]
    )


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))
