"""Reads the rows of an arrived file like ingestion, and builds their sides of the joins."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.logs.files.source_files import logs_of, supplied_twice
from components.logs.files.storage import open_file
from components.logs.joining.keys import buckets
from components.logs.joining.plan import JoinFile
from components.logs.joining.sides import KEY, TIME
from components.logs.joining.slices import single, together
from components.logs.joining.splitting import FileReport, Splitter, row_schema, source_schema
from components.logs.readers import formats
from components.logs.rows.conversion import convert
from components.logs.rows.limits import limits_of
from components.stream.arrivals import Arrival
from schemas.contracts.joining_job import JoiningJob
from schemas.derived.columns import columns
from schemas.derived.sources import columns_of_log, columns_of_source, columns_read_of_log
from schemas.errors import UserError

Integers = NDArray[np.int64]


@dataclass
class MainFile:
    """Rows of the main log.

    Attributes:
        number: number of the file, in the order of reading.
        name: path below the data folder.
        day: YYYY-MM-DD, of its path.
        batch: converted rows: a list column for each column of the log.
        rows: index of each row in its file.
        times: time of each row, seconds since 1970; the least int64 without one.
        sides: sides of all rows of the file, by source; see `joining.splitting`.
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


class FileReader:
    """Reads files by the spec."""

    def __init__(self, job: JoiningJob):
        """Takes the joiner's job."""
        self._logs, self._columns = job.logs, columns(job.inputs)
        assert job.inputs.event_time is not None
        self._event_time = job.inputs.event_time
        self._buckets = dict.fromkeys(job.logs.sources, 1)

    def main(self, arrival: Arrival, number: int, counts: Counter[str]) -> MainFile:
        """Returns the rows of a file of the main log.

        Raises:
            UserError: it does not fit the spec.
            OSError: it cannot be read.
        """
        self._refuse_unfit(arrival)
        read = columns_of_log(self._logs, self._columns)
        limits = limits_of(self._logs, arrival.day.isoformat())
        batches, numbers, seen = [], [], 0
        with open_file(arrival.path) as file:
            for rows in formats.read(self._logs, file, arrival.path, read):
                converted = convert(rows.batch, read, arrival.path, seen, limits)
                batches.append(converted.batch)
                numbers.append(seen + converted.rows)
                seen += rows.batch.num_rows
                counts["rows"] += rows.batch.num_rows + rows.num_unreadable
                counts["rows dropped"] += sum(converted.dropped.values()) + rows.num_unreadable
        if not batches:
            empty = pa.RecordBatch.from_pylist([], pa.schema([(column.name, pa.list_(pa.int64())) for column in read]))
            batches, numbers = [empty], [np.zeros(0, np.int64)]
        batch = single(batches)
        times = _times(pc.list_element(batch.column(batch.schema.get_field_index(self._event_time)), 0))
        return MainFile(
            number,
            arrival.name,
            arrival.day.isoformat(),
            batch,
            np.concatenate(numbers),
            times,
            self._slices(arrival, number),
            np.ones(batch.num_rows, bool),
            times,
        )

    def other(self, arrival: Arrival, number: int, counts: Counter[str]) -> OtherFile:
        """Returns the rows of a file of a source; raises as `main` does."""
        self._refuse_unfit(arrival)
        batch = self._slices(arrival, number)[arrival.source]
        counts[f"rows of {arrival.source}"] += batch.num_rows
        times = _times(batch.column(batch.schema.get_field_index(TIME)))
        return OtherFile(number, arrival.source, batch, times, key_hashes(batch))

    def _refuse_unfit(self, arrival: Arrival) -> None:
        """Refuses files that ingestion refuses before reading, such as one without a column."""
        logs, read = self._logs, columns_read_of_log(self._logs, self._columns)
        if arrival.source:
            source = self._logs.sources[arrival.source]
            logs, read = logs_of(logs, source), columns_of_source(source, self._columns)
        with open_file(arrival.path) as file:
            found = formats.inspect(logs, file, arrival.path, read)
        if problems := [*found.problems, *supplied_twice(logs, found.columns, arrival.path)]:
            raise UserError("\n".join(problems))

    def _slices(self, arrival: Arrival, number: int) -> dict[str, pa.RecordBatch]:
        """Returns the file's rows as sides of the joins: of each source for the main log, else of its own."""
        if not self._logs.sources:
            return {}
        splitter = Splitter(self._logs, self._columns, self._event_time, self._buckets)
        file = JoinFile(arrival.source, arrival.path, arrival.day.isoformat(), number)
        parts: dict[str, list[bytes]] = {}
        with open_file(arrival.path) as opened:
            for part in splitter.split(file, opened, FileReport(source=file.source, path=file.path)):
                if not isinstance(part, FileReport):
                    parts.setdefault(part[0], []).append(part[2])
        if arrival.source:
            schema = source_schema(self._logs.sources[arrival.source], self._columns)
            return {arrival.source: together(parts.get(arrival.source, []), schema)}
        return {name: together(parts.get(name, []), row_schema(each)) for name, each in self._logs.sources.items()}


def key_hashes(side: pa.RecordBatch) -> Integers:
    """Returns a hash of the keys of each row of either side of a join."""
    keys = [column for name, column in zip(side.schema.names, side.columns, strict=True) if name.startswith(KEY)]
    return buckets(keys, 2**62)


def _times(array: pa.Array) -> Integers:
    least = np.iinfo(np.int64).min
    return np.asarray(array.fill_null(least)).astype(np.int64)
