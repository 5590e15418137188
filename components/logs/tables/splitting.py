"""The part of a table that a row belongs to: its day, or the split that its time or a hash determines."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.readers.column_types import BINARY, TEXT
from sangam.schemas.derived.days import parse_day
from sangam.schemas.host.splitmix64 import GAMMA, mix64
from sangam.schemas.spec.data import EVAL, TRAIN, VALIDATION, After, NewestDays, Share, TableLogs

_DAY_S = 86_400
_HASHES = 2.0**64

PartsOf = Callable[["Keys"], NDArray[Any]]
"""Returns the name of each row's part."""


@dataclass(frozen=True)
class Keys:
    """What determines the parts of some rows.

    Attributes:
        times: seconds since 1970; None without `time`.
        values: values of the column `by`; None without it.
        first_row: index of the first row in its file.
        file_name: path of the file below the data folder.
        num_rows: number of rows.
    """

    times: NDArray[np.int64] | None
    values: pa.Array | None
    first_row: int
    file_name: str
    num_rows: int


def days_of(times: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """Returns the day of each time in a time zone, as days since 1970."""
    moments = pa.array(times, pa.int64()).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s", zone))
    return np.asarray(pc.local_timestamp(moments).cast(pa.int64())) // _DAY_S


def parts_of(logs: TableLogs, times: Callable[[], NDArray[np.int64]]) -> PartsOf:
    """Returns the function from rows to parts.

    Args:
        logs: the table.
        times: reads the times of all rows; called only for a share of the rows by time.
    """
    if isinstance(logs.eval, NewestDays):
        return lambda keys: np.datetime_as_string(days_of(_times(keys), logs.zone).astype("datetime64[D]"))
    if logs.time is None:
        assert isinstance(logs.eval, Share)
        return _by_hash(logs.eval.fraction, _fraction(logs))
    if isinstance(logs.eval, After):
        first = (parse_day(logs.eval.after) - parse_day("1970-01-01")).days + 1
        known = times() if logs.validation else np.zeros(0, np.int64)
        before = np.sort(known[days_of(known, logs.zone) < first])
        validation = _cut(before, _fraction(logs)) if logs.validation else None
        return lambda keys: _named(_times(keys), validation, days_of(_times(keys), logs.zone) >= first)
    known = np.sort(times())
    first_eval = _cut(known, logs.eval.fraction)
    validation = _cut(known[known < first_eval], _fraction(logs)) if logs.validation else None
    return lambda keys: _named(_times(keys), validation, _times(keys) >= first_eval)


def _times(keys: Keys) -> NDArray[np.int64]:
    assert keys.times is not None
    return keys.times


def _fraction(logs: TableLogs) -> float:
    return logs.validation.fraction if isinstance(logs.validation, Share) else 0.0


def _cut(times: NDArray[np.int64], fraction: float) -> int:
    """Returns the first time of the newest share of sorted times; equal times stay together."""
    return int(times[min(len(times) - 1, round(len(times) * (1 - fraction)))]) if len(times) else 0


def _named(times: NDArray[np.int64], validation: int | None, is_eval: NDArray[np.bool_]) -> NDArray[Any]:
    names = np.where(is_eval, EVAL, TRAIN).astype(object)
    if validation is not None:
        names[~is_eval & (times >= validation)] = VALIDATION
    return names


def _by_hash(fraction: float, validation: float) -> PartsOf:
    def named(keys: Keys) -> NDArray[Any]:
        share = _hashes(keys) / _HASHES
        names = np.full(keys.num_rows, TRAIN, object)
        names[share < fraction + validation * (1 - fraction)] = VALIDATION if validation else TRAIN
        names[share < fraction] = EVAL
        return names

    return named


def _hashes(keys: Keys) -> NDArray[np.uint64]:
    """Returns a hash of each row's value; of its place in the logs where there is no value."""
    rows = np.arange(keys.first_row, keys.first_row + keys.num_rows, dtype=np.uint64)
    own = mix64(np.uint64(_text_hash(keys.file_name.encode())) + rows * np.uint64(GAMMA))
    if keys.values is None:
        return own
    plain = keys.values.dictionary_decode() if pa.types.is_dictionary(keys.values.type) else keys.values
    encoded = plain.dictionary_encode()
    known = np.array([_text_hash(value) for value in _bytes_of(encoded.dictionary)], np.uint64)
    codes = np.asarray(encoded.indices.fill_null(0), np.int64)
    return np.where(np.asarray(keys.values.is_valid()), known[codes] if len(known) else own, own)


def _bytes_of(values: pa.Array) -> Iterable[bytes]:
    """Yields values as bytes of text: an id has one hash, whether a file has it as a number or as a text."""
    is_text = any(check(values.type) for check in (*TEXT, *BINARY))
    return (value.as_py() for value in (values if is_text else values.cast(pa.string())).cast(pa.large_binary()))


def _text_hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
