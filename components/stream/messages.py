"""Converts a topic's messages into rows like those of the log's files; separates invalid messages."""

import datetime
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.joining.canonical import canonical, canonical_type
from sangam.components.logs.rows.conversion import convert
from sangam.components.stream.dead_letters import Letter
from sangam.components.stream.served import rows_of
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.sources import columns_of_source, columns_read_of_log, origins, time_of_source
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.sources import ActionColumn, Source, StateTable

MAX_BYTES = 2**20
"""Maximum size of a message; the brokers' default."""
_DAY_S = 86_400
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_WRONG = (UserError, pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError)
_MOST_SHOWN = 60

Integers = NDArray[np.int64]


class Message(NamedTuple):
    """A message. `logged_at` is its timestamp, or the time of reading if it has none, in seconds since 1970."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    logged_at: int

    def as_letter(self, reason: str) -> Letter:
        """Returns the message as a dead letter."""
        return Letter(self.topic, self.partition, self.offset, reason, self.value)


@dataclass
class Sorted:
    """Messages of one source.

    Attributes:
        batch: the rows, with the columns that files of the log have.
        times: times of each row.
        places: places of each row, among the messages.
        poison: reason by index of each message that cannot become a row.
        num_empty: number of messages without a value, which mark deleted versions in a table's topic.
        num_clipped: number of times that were clipped to the arrival.
    """

    batch: pa.RecordBatch
    times: Integers
    places: Integers
    poison: dict[int, str] = field(default_factory=dict)
    num_empty: int = 0
    num_clipped: int = 0

    @property
    def days(self) -> Integers:
        """The day of each row (UTC), as `datetime.date.toordinal` numbers them."""
        return _EPOCH + self.times // _DAY_S


class Sorter:
    """Separates the rows of one source from invalid messages."""

    def __init__(self, job: JoiningJob, source: str, wall: Callable[[], float] = time.time):
        """Takes the joiner's job, the name of a source, empty for the main log, and what returns seconds since 1970."""
        read = columns(job.inputs)
        self._readers = {column.name: column for column in read}
        self._source = job.logs.sources[source] if source else None
        self._place = job.kafka.topics[source] if job.kafka else source
        self._ahead_s, self._is_clipped, self._wall = job.settings.ahead_s, job.settings.ahead == "clip", wall
        if self._source is None:
            assert job.inputs.event_time is not None
            self._columns = columns_read_of_log(job.logs, read)
            self._time, self._joined = job.inputs.event_time, origins(job.logs)
        else:
            self._columns = columns_of_source(self._source, read)
            self._time, self._joined = time_of_source(self._source).name, {}

    def sort(self, messages: Sequence[Message]) -> Sorted:
        """Returns the rows of messages, and the messages that cannot become one."""
        poison: dict[int, str] = {}
        places, parsed, num_empty = [], [], 0
        for place, message in enumerate(messages):
            if message.value is None and isinstance(self._source, StateTable):
                num_empty += 1
                continue
            try:
                rows_of_message = self._parsed(message.value)
                parsed += rows_of_message
                places += [place] * len(rows_of_message)
            except UserError as error:
                poison[place] = str(error)
        rows = np.asarray(places, np.int64)
        batch, wrong = self._batch(parsed)
        arrived = np.minimum([messages[place].logged_at for place in places], int(self._wall())).astype(np.int64)
        batch, num_clipped = self._clipped(batch, arrived)
        wrong = self._without_time(batch, arrived) | wrong
        poison.update({places[row]: reason for row, reason in wrong.items()})
        stays = _but(len(rows), wrong)
        batch, rows = batch.take(pa.array(stays)), rows[stays]
        wrong = self._refused(batch)
        poison.update({int(rows[row]): reason for row, reason in wrong.items()})
        stays = np.flatnonzero(~np.isin(rows, list(poison)))  # Also the other rows of such a message.
        batch, rows = batch.take(pa.array(stays)), rows[stays]
        return Sorted(batch, _times(_column(batch, self._time)), rows, poison, num_empty, num_clipped)

    def _parsed(self, value: bytes | None) -> list[dict[str, Any]]:
        """Returns the rows of a message: one, or the candidates of a served request."""
        if value is None:
            raise UserError(f"{self._place}: has no value (got null); a message is a JSON object")
        if len(value) > MAX_BYTES:
            raise UserError(f"{self._place}: is too large (got {len(value)} bytes); at most {MAX_BYTES}")
        try:
            row = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self._place}: is not JSON (got {_short(error)}); a message is a JSON object") from None
        if not isinstance(row, dict):
            raise UserError(f"{self._place}: is no object (got {type(row).__name__}); a message is a JSON object")
        if twice := self._joined.keys() & row.keys():
            name = min(twice)
            raise UserError(
                f"{self._place}: column '{name}': is supplied by source '{self._joined[name]}' too (got it in both); "
                "remove it from the messages of the main log"
            )
        return rows_of(row, len(value), self._place)

    def _batch(self, rows: Sequence[Mapping[str, Any]]) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Returns the columns of all rows, and which rows have a value that none of them can take."""
        arrays: list[pa.Array] = []
        wrong: dict[int, str] = {}
        for column in self._columns:
            values = [row.get(column.name) for row in rows]
            try:
                array = self._array(values, column)
            except _WRONG:
                parts = []
                for row, value in enumerate(values):
                    try:
                        parts.append(self._array([value], column))
                    except _WRONG as error:
                        parts.append(self._array([None], column))
                        reason = f"{self._place}: column '{column.name}': {_short(error)} (got {_short(value)})"
                        wrong.setdefault(row, reason)
                array = pa.concat_arrays(parts)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, [column.name for column in self._columns]), wrong

    def _array(self, values: Sequence[Any], column: Column) -> pa.Array:
        """Returns an array of the type that Arrow infers, as in a file, cast to the column's type if it fits."""
        if not values:
            return pa.array([], canonical_type(column))
        batch = pa.RecordBatch.from_arrays([pa.array(values)], [column.name])
        return canonical(batch, [column], self._place)[column.name]

    def _clipped(self, batch: pa.RecordBatch, arrived: Integers) -> tuple[pa.RecordBatch, int]:
        """Returns rows whose times are at most those of their arrival, if the spec declares this, and how many were
        later by more than `ahead_s`."""
        if not self._is_clipped:
            return batch, 0
        times = np.asarray(_column(batch, self._time).fill_null(-1))
        is_ahead = times > arrived + self._ahead_s
        clipped = pa.array(np.where(is_ahead, arrived, times), pa.int64(), mask=times == -1)
        arrays = [clipped if name == self._time else _column(batch, name) for name in batch.schema.names]
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names), int(is_ahead.sum())

    def _without_time(self, batch: pa.RecordBatch, arrived: Integers) -> dict[int, str]:
        """Returns which rows have an impossible time: a wrong clock must not end the windows of all others."""
        times = _column(batch, self._time)
        seconds, latest = np.asarray(times.fill_null(-1)), arrived + self._ahead_s
        wrong = {}
        for row in np.flatnonzero((seconds < 0) | (seconds > latest)).tolist():
            value = times[row].as_py()
            allowed = f"seconds from 1970 to {latest[row]}, the message's arrival and joining.ahead_s"
            wrong[row] = f"{self._place}: column '{self._time}': has no time that can be right (got {value}); {allowed}"
        return wrong

    def _refused(self, batch: pa.RecordBatch, first: int = 0) -> dict[int, str]:
        """Returns which rows would make ingestion refuse their whole file."""
        try:
            self._refuse(batch)
            return {}
        except UserError as error:
            if batch.num_rows == 1:
                return {first: str(error)}
        half = batch.num_rows // 2
        return self._refused(batch.slice(0, half), first) | self._refused(batch.slice(half), first + half)

    def _refuse(self, batch: pa.RecordBatch) -> None:
        if self._source is None:
            convert(batch, [column for column in self._columns if column.name in self._readers], self._place)
        else:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            refuse_values(self._source, columns, self._readers, self._place)


def refuse_values(source: Source, values: Mapping[str, pa.Array], readers: Mapping[str, Column], place: str) -> None:
    """Refuses values of a source that examples cannot have, such as a binary label of 2.

    Args:
        source: the source.
        values: its columns by name.
        readers: columns of the inputs by name.
        place: for the error's text.

    Raises:
        UserError: with the first of them.
    """
    for name, each in source.columns.items():
        array = values.get(each.column or name)
        if isinstance(each, ActionColumn):
            if each.take not in ("max", "last") or array is None:
                continue
            array = array.filter(_matching(values, each.where))
        convert(pa.RecordBatch.from_arrays([array], [name]), [readers[name]], place)


def day_of(number: int) -> str:
    """Returns a day as YYYY-MM-DD from its `datetime.date.toordinal`."""
    return datetime.date.fromordinal(number).isoformat()


def _matching(values: Mapping[str, pa.Array], where: Mapping[str, str | int]) -> pa.Array:
    mask = pa.array(np.ones(len(next(iter(values.values()))), bool))
    for name, value in where.items():
        wanted = value.encode() if isinstance(value, str) else value
        mask = pc.and_(mask, pc.fill_null(pc.equal(values[name], wanted), False))
    return mask


def _but(number: int, wrong: Mapping[int, str]) -> Integers:
    return np.setdiff1d(np.arange(number), np.fromiter(wrong, np.int64, len(wrong)))


def _times(array: pa.Array) -> Integers:
    return np.asarray(array).astype(np.int64)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _short(value: object) -> str:
    text = str(value) if isinstance(value, BaseException) else repr(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
