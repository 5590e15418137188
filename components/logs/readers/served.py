"""Logged requests as rows, one for each candidate; `schemas/contracts/request_log.py` has the form of their files."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sangam.components.logs.readers.column_types import is_list
from sangam.components.logs.readers.lists import lengths_of
from sangam.schemas.contracts.request_log import (
    AT,
    CANDIDATE,
    CANDIDATES_KEY,
    EVENT_TIME_KEY,
    FORMAT,
    FORMAT_KEY,
    NUM_CANDIDATES,
)
from sangam.schemas.errors import UserError

BATCH_REQUESTS = 16
"""Requests that become rows at once: a request has hundreds."""
_MOST_CANDIDATES = 100_000
_MICROSECONDS = 1_000_000

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Requests:
    """A file of requests.

    Attributes:
        schema: columns of its rows.
        num_rows: number of rows; None if the file does not tell.
        event_time: name under which `AT` is a column too; empty: none.
    """

    schema: pa.Schema
    num_rows: int | None
    event_time: str

    def roots(self, names: Collection[str]) -> list[str]:
        """Returns the columns of the file that columns of the rows are made of."""
        read = [AT if name == self.event_time else name for name in names]
        return list(dict.fromkeys([NUM_CANDIDATES, CANDIDATE, *read]))

    def rows(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """Returns the rows of some requests.

        Raises:
            UserError: a column has neither one value nor one for each candidate.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        counts = _counts(columns, path)
        request_N = np.repeat(np.arange(len(counts)), counts)
        place_N = np.arange(len(request_N)) - np.repeat(np.cumsum(counts) - counts, counts)
        arrays = {}
        for name, array in columns.items():
            if is_list(array.type):
                arrays[name] = _of_candidates(array, counts, request_N, place_N, f"{path}: column '{name}'")
            else:
                arrays[name] = array.take(pa.array(request_N))
        if AT in arrays:
            arrays[AT] = _seconds(arrays[AT])
            if self.event_time:
                arrays[self.event_time] = arrays[AT]
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def requests_of(parquet: pq.ParquetFile, path: str) -> Requests | None:
    """Returns what an open file of requests has; None for any other file.

    Raises:
        UserError: it has another format than this reader knows.
    """
    told = parquet.metadata.metadata or {}
    if FORMAT_KEY not in told:
        return None
    if told[FORMAT_KEY] != str(FORMAT).encode():
        got = told[FORMAT_KEY].decode(errors="backslashreplace")
        raise UserError(f"{path}: format is not {FORMAT} (got {got}); read it with the release that wrote it")
    if absent := {NUM_CANDIDATES, CANDIDATE} - set(parquet.schema_arrow.names):
        raise UserError(f"{path}: column '{min(absent)}' is missing (got none); it is no whole log of requests")
    schema, event_time = parquet.schema_arrow, told.get(EVENT_TIME_KEY, b"").decode(errors="replace")
    fields = [(field.name, field.type.value_type if is_list(field.type) else field.type) for field in schema]
    fields = [(name, pa.int64() if name == AT else kind) for name, kind in fields]
    if event_time in schema.names:
        event_time = ""
    if event_time:
        fields.append((event_time, pa.int64()))
    number = told.get(CANDIDATES_KEY, b"")
    return Requests(pa.schema(fields), int(number) if number.isdigit() else None, event_time)


def _counts(columns: dict[str, pa.Array], path: str) -> Integers:
    """Returns the number of logged candidates of each request."""
    all_R = np.asarray(columns[NUM_CANDIDATES].fill_null(0)).astype(np.int64)
    places = columns[CANDIDATE]
    counts: Integers = np.where(np.asarray(places.is_valid()), lengths_of(places), all_R)
    if counts.size and not 0 <= counts.min() <= counts.max() <= _MOST_CANDIDATES:
        raise UserError(
            f"{path}: column '{NUM_CANDIDATES}': no number of candidates (got {counts.min()} to {counts.max()}); "
            f"0 to {_MOST_CANDIDATES}"
        )
    return counts


def _of_candidates(array: pa.Array, counts: Integers, request_N: Integers, place_N: Integers, place: str) -> pa.Array:
    """Returns the value of each candidate; a request without a list has none."""
    lengths = lengths_of(array)
    wrong = np.flatnonzero((lengths != counts) & (lengths != 1) & np.asarray(array.is_valid()))
    if len(wrong):
        raise UserError(
            f"{place}: has neither one value nor one for each candidate (got {lengths[wrong[0]]} values for "
            f"{counts[wrong[0]]} candidates); write it again"
        )
    starts = np.cumsum(lengths) - lengths
    at_N = starts[request_N] + np.where(lengths[request_N] == 1, 0, place_N)
    return array.flatten().take(pa.array(at_N, mask=lengths[request_N] == 0))


def _seconds(times: pa.Array) -> pa.Array:
    numbers = np.asarray(times.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0))
    return pa.array(numbers // _MICROSECONDS, mask=np.asarray(times.is_null()))
