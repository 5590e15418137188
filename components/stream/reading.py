"""Reads the rows of an arrived file like ingestion, and builds their sides of the joins."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.source_files import logs_of, supplied_twice
from sangam.components.logs.files.storage import open_file
from sangam.components.logs.files.table_formats import refuse_tables
from sangam.components.logs.joining.canonical import canonical, canonical_type
from sangam.components.logs.joining.keys import buckets
from sangam.components.logs.joining.plan import JoinFile
from sangam.components.logs.joining.sides import DAY, FILE, KEY, ROW, TIME, VALUE, numbers_of
from sangam.components.logs.joining.slices import single, to_bytes, together
from sangam.components.logs.joining.splitting import FileReport, Splitter, row_schema, source_schema
from sangam.components.logs.readers import formats
from sangam.components.logs.rows.conversion import convert
from sangam.components.logs.rows.limits import limits_of
from sangam.components.logs.rows.times import TimeCounts, check_times, ranges_of, times_problem
from sangam.components.stream.arrivals import Arrival
from sangam.components.stream.messages import refuse_values
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.sources import (
    columns_of_log,
    columns_of_source,
    columns_read_of_log,
    keys_of_log,
    time_of_source,
)
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column

Integers = NDArray[np.int64]
NEVER = int(np.iinfo(np.int64).min)
"""The time of a row without one."""
_MOST_OUTSIDE = 0.5
"""Share of a file's times outside their range beyond which the file has another unit, or is one of another day."""


@dataclass
class MainFile:
    """Rows of the main log.

    Attributes:
        number: number of the reading.
        name: path below the data folder.
        day: YYYY-MM-DD, of its path.
        batch: converted rows: a list column for each column of the log.
        rows: index of each row in its file.
        times: time of each row, seconds since 1970; `NEVER` without one.
        sides: sides of all rows of the reading, by source; see `joining.splitting`.
        waits: mask of the rows that have not become examples yet.
        order: order by which rows become examples: their times, or the watermark when they arrived, if that was later.
    """

    number: int
    name: str
    day: str
    batch: pa.RecordBatch
    rows: Integers
    times: Integers
    sides: Mapping[str, pa.RecordBatch]
    waits: NDArray[np.bool_]
    order: Integers


@dataclass
class OtherFile:
    """Rows of a source; `times` as of the main log, `hashes` as `key_hashes` returns them."""

    number: int
    source: str
    batch: pa.RecordBatch
    times: Integers
    hashes: Integers


@dataclass
class Content:
    """All rows of a file.

    Attributes:
        arrival: the file.
        columns: columns by name, each of one type, whatever the file.
        batches: the rows of the main log as they were read; empty for a source.
        unreadable: number of records that could not be read.
        times: counts of the times of the column that the range of the file's day is for.
    """

    arrival: Arrival
    columns: pa.RecordBatch
    batches: Sequence[pa.RecordBatch] = ()
    unreadable: int = 0
    times: TimeCounts = field(default_factory=TimeCounts)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.columns.num_rows)

    def digest(self, rows: int) -> str:
        """Returns the sha256 of the first rows, equal for equal values in any format."""
        digest = hashlib.sha256()
        first = pa.array(np.arange(min(rows, self.rows)))
        for name, array in sorted(zip(self.columns.schema.names, self.columns.columns, strict=True)):
            if self.arrival.source and name in (DAY, FILE):
                continue  # Of the file's name, not of its content.
            for part in _without_nulls(array.take(first)):
                digest.update(to_bytes(pa.RecordBatch.from_arrays([part], [name])))
        return digest.hexdigest()


@dataclass(frozen=True)
class Span:
    """Rows to take of a file: from `first` to before `end`. Times after `latest` are wrong, or become `arrived`."""

    first: int
    end: int
    arrived: int
    latest: int


class FileReader:
    """Reads files by the spec."""

    def __init__(self, job: JoiningJob):
        """Takes the joiner's job."""
        self._logs, self._columns = job.logs, columns(job.inputs)
        assert job.inputs.event_time is not None
        self._event_time = Column(job.inputs.event_time, "int", is_required=False, time="event")
        self._is_clipped = job.settings.ahead == "clip"
        self._buckets = dict.fromkeys(job.logs.sources, 1)

    def open(self, arrival: Arrival) -> Content:
        """Returns all rows of a file.

        Raises:
            UserError: it does not fit the spec, or cannot be read, whatever its reader raises.
        """
        try:
            return self._opened(arrival)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{arrival.path}: cannot be read (got {type(error).__name__}: {error})") from error

    def _opened(self, arrival: Arrival) -> Content:
        self._refuse_unfit(arrival)
        content = self._source(arrival) if arrival.source else self._main_log(arrival)
        column, day = self._event_time, arrival.day.isoformat()
        if arrival.source:
            column = time_of_source(self._logs.sources[arrival.source])
        assert column.time is not None
        if problem := times_problem(column, content.times, ranges_of(self._logs, day)[column.time], _MOST_OUTSIDE):
            raise UserError(f"{arrival.path}: {problem}")
        return content

    def main(self, content: Content, number: int, span: Span, counts: Counter[str]) -> tuple[MainFile, list[int]]:
        """Returns rows of the main log, and the indices of those with times after `span.latest`."""
        arrival, read = content.arrival, columns_of_log(self._logs, self._columns)
        limits = limits_of(self._logs, arrival.day.isoformat())
        raw = _times(content.columns.column(self._event_time.name))
        is_ahead = _ahead(raw, span)
        batches, numbers, seen = [], [], 0
        for whole in content.batches:
            begin, end = max(span.first, seen), min(span.end, seen + whole.num_rows)
            if begin < end:
                converted = convert(whole.slice(begin - seen, end - begin), read, arrival.path, begin, limits)
                batches.append(converted.batch)
                numbers.append(begin + converted.rows)
                counts["rows"] += end - begin
                counts["rows dropped"] += sum(converted.dropped.values())
            seen += whole.num_rows
        if not batches:
            empty = pa.RecordBatch.from_pylist([], pa.schema([(column.name, pa.list_(pa.int64())) for column in read]))
            batches, numbers = [empty], [np.zeros(0, np.int64)]
        batch, rows = single(batches), np.concatenate(numbers)
        ahead = np.flatnonzero(is_ahead[rows])
        wrong = rows[ahead].tolist()
        if self._is_clipped and len(ahead):
            batch, wrong = _with_time(batch, self._event_time.name, ahead, span.arrived), []
            counts["rows clipped to their arrival"] += len(ahead)
        elif len(ahead):
            stays = np.setdiff1d(np.arange(len(rows)), ahead)
            batch, rows = batch.take(pa.array(stays)), rows[stays]
            counts["rows ahead of their arrival"] += len(ahead)
        times = _times(pc.list_element(batch.column(batch.schema.get_field_index(self._event_time.name)), 0))
        sides = {name: self._side(content, name, number, span) for name in self._logs.sources}
        waits = np.ones(batch.num_rows, bool)
        main = MainFile(number, arrival.name, arrival.day.isoformat(), batch, rows, times, sides, waits, times)
        return main, wrong

    def other(self, content: Content, number: int, span: Span, counts: Counter[str]) -> tuple[OtherFile, list[int]]:
        """Returns rows of a source; otherwise as `main`."""
        arrival = content.arrival
        batch = content.columns.slice(span.first, span.end - span.first)
        times = _times(batch.column(batch.schema.get_field_index(TIME)))
        ahead = np.flatnonzero(_ahead(times, span))
        wrong = numbers_of(batch, ROW)[ahead].tolist()
        counts[f"rows of {arrival.source}"] += batch.num_rows
        if self._is_clipped and len(ahead):
            times[ahead], wrong = span.arrived, []
            batch = _replaced(batch, TIME, pa.array(times, mask=times == NEVER))
            counts[f"rows of {arrival.source} clipped to their arrival"] += len(ahead)
        elif len(ahead):
            stays = np.setdiff1d(np.arange(len(times)), ahead)
            batch, times = batch.take(pa.array(stays)), times[stays]
            counts[f"rows of {arrival.source} ahead of their arrival"] += len(ahead)
        batch = _replaced(batch, FILE, pa.array(np.full(batch.num_rows, number, np.int32)))
        return OtherFile(number, arrival.source, batch, times, key_hashes(batch)), wrong

    def newest(self, content: Content, span: Span) -> int:
        """Returns the latest time that rows are evidence of: not of one that is after the file's day or its arrival,
        and not of the latest hundredth, which may have wrong clocks; `NEVER` without any."""
        name = TIME if content.arrival.source else self._event_time.name
        times = _times(content.columns.column(name))[span.first : span.end]
        first, last = ranges_of(self._logs, content.arrival.day.isoformat())["event"].seconds
        return newest_of(times[(times >= first) & (times <= last) & ~_ahead(times, span)])

    def _main_log(self, arrival: Arrival) -> Content:
        read = columns_read_of_log(self._logs, self._columns)
        of_time = {self._event_time.name: self._event_time}
        one_type = list((of_time | {column.name: column for column in read}).values())
        batches, parts, unreadable, times = [], [], 0, TimeCounts()
        allowed = ranges_of(self._logs, arrival.day.isoformat())["event"]
        with open_file(arrival.path) as file:
            for rows in formats.read(self._logs, file, arrival.path, one_type):
                if twice := supplied_twice(self._logs, rows.unread, arrival.path):
                    raise UserError("\n".join(twice))
                arrays = canonical(rows.batch, one_type, arrival.path)
                times += check_times(arrays[self._event_time.name], self._event_time, allowed).counts
                batches.append(rows.batch)
                parts.append(pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)))
                unreadable += rows.num_unreadable
        if not parts:
            empty = {column.name: pa.array([], canonical_type(column)) for column in one_type}
            parts = [pa.RecordBatch.from_arrays(list(empty.values()), list(empty))]
        return Content(arrival, single(parts), batches, unreadable, times)

    def _source(self, arrival: Arrival) -> Content:
        source = self._logs.sources[arrival.source]
        splitter = Splitter(self._logs, self._columns, self._event_time.name, self._buckets)
        file = JoinFile(arrival.source, arrival.path, arrival.day.isoformat(), 0)
        report, parts = FileReport(source=file.source, path=file.path), list[bytes]()
        with open_file(arrival.path) as opened:
            for part in splitter.split(file, opened, report):
                if isinstance(part, FileReport):
                    report = part
                else:
                    parts.append(part[2])
        batch = together(parts, source_schema(source, self._columns))
        values = {name.removeprefix(VALUE): batch.column(name) for name in batch.schema.names if name.startswith(VALUE)}
        refuse_values(source, values, {column.name: column for column in self._columns}, arrival.path)
        return Content(arrival, batch, (), report.unreadable, report.times)

    def _side(self, content: Content, name: str, number: int, span: Span) -> pa.RecordBatch:
        """Returns rows of the main log as a side of the join with a source."""
        source, count = self._logs.sources[name], span.end - span.first
        of_log = content.columns.slice(span.first, count)
        times = of_log.column(self._event_time.name)
        if self._is_clipped:
            times = pc.if_else(pc.greater(times, span.latest), pa.scalar(span.arrived, pa.int64()), times)
        arrays = [
            pa.array(np.full(count, content.arrival.day.toordinal(), np.int32)),
            pa.array(np.full(count, number, np.int32)),
            pa.array(np.arange(span.first, span.end)),
            times,
            *(of_log.column(key.name) for key in keys_of_log(source)),
        ]
        return pa.RecordBatch.from_arrays(arrays, row_schema(source).names)

    def _refuse_unfit(self, arrival: Arrival) -> None:
        """Refuses files that ingestion refuses before reading, such as one without a column."""
        logs, read = self._logs, columns_read_of_log(self._logs, self._columns)
        if arrival.source:
            source = self._logs.sources[arrival.source]
            logs, read = logs_of(logs, source), columns_of_source(source, self._columns)
        if logs.format == "parquet" and arrival.facts is not None:
            refuse_tables([arrival.path], LocalStorage())
        with open_file(arrival.path) as file:
            found = formats.inspect(logs, file, arrival.path, read)
        if problems := [*found.problems, *supplied_twice(logs, found.columns or (), arrival.path)]:
            raise UserError("\n".join(problems))


def key_hashes(side: pa.RecordBatch) -> Integers:
    """Returns a hash of the keys of each row of either side of a join."""
    keys = [column for name, column in zip(side.schema.names, side.columns, strict=True) if name.startswith(KEY)]
    return buckets(keys, 2**62)


def newest_of(times: Integers) -> int:
    """Returns the latest time but for a hundredth of the times; `NEVER` without any."""
    known = times[times != NEVER]
    at = len(known) - 1 - len(known) // 100
    return int(np.partition(known, at)[at]) if len(known) else NEVER


def _ahead(times: Integers, span: Span) -> NDArray[np.bool_]:
    return times > span.latest


def _with_time(batch: pa.RecordBatch, name: str, at: Integers, time: int) -> pa.RecordBatch:
    """Returns converted rows, some with another time."""
    times = _times(pc.list_element(batch.column(batch.schema.get_field_index(name)), 0))
    times[at] = time
    offsets = np.concatenate([[0], np.cumsum(times != NEVER)])
    mask = np.append(times == NEVER, False)
    array = pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=mask), pa.array(times[times != NEVER]))
    return _replaced(batch, name, array)


def _replaced(batch: pa.RecordBatch, name: str, array: pa.Array) -> pa.RecordBatch:
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True)) | {name: array}
    return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def _without_nulls(array: pa.Array) -> list[pa.Array]:
    """Returns arrays without nulls that say the same; Arrow leaves open what lies under a null."""
    if pa.types.is_list(array.type):
        return [pc.list_value_length(array), *_without_nulls(array.flatten())]
    zero = b"" if pa.types.is_binary(array.type) else 0
    return [array.is_valid().cast(pa.uint8()), array.fill_null(zero)]


def _times(array: pa.Array) -> Integers:
    return np.array(array.fill_null(NEVER), np.int64)
