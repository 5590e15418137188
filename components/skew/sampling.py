"""Takes a sample of the logged requests of a day, a row for each candidate."""

import hashlib
import heapq
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.files.day_files import listed_days
from sangam.components.logs.files.light_storage import LightStorage, open_light
from sangam.components.logs.joining.canonical import canonical, canonical_type
from sangam.components.logs.readers import parquet
from sangam.schemas.contracts.request_log import AT, REQUEST_ID
from sangam.schemas.derived.days import Day
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import ServedLogs

CANDIDATE = "candidate"
"""Column with the number of a row within its request."""
_ID, _AT = Column(REQUEST_ID, "string"), Column(AT, "int")


def sampled(log: str, day: Day, num_requests: int, columns: Sequence[Column]) -> pa.Table:
    """Returns the candidates of some requests of a day, with id, time, `CANDIDATE` and columns; empty without a file.

    A hash of the request id decides: the sample of a log that is complete is the same again.

    Args:
        log: folder of the log of requests, or its address.
        day: day by the server's clock, UTC.
        num_requests: size of the sample.
        columns: columns that requests have.

    Raises:
        UserError: a file cannot be read.
    """
    return candidates_of(log, day, _chosen(_paths(log, day), num_requests), columns)


def candidates_of(log: str, day: Day, requests: pa.Array, columns: Sequence[Column]) -> pa.Table:
    """Returns the candidates of requests of a day as `sampled` does; `requests` has their ids.

    Raises:
        UserError: a file cannot be read, or has such requests without one of the columns.
    """
    read = list({column.name: column for column in (_ID, _AT, *columns)}.values())
    empty = pa.table({column.name: pa.array([], canonical_type(column)) for column in read})
    tables = [table for path in _paths(log, day) for table in _rows(path, read, requests)]
    table = pa.concat_tables([empty, *tables])
    return table.append_column(CANDIDATE, pa.array(_numbers_within(table[REQUEST_ID].combine_chunks())))


def _paths(log: str, day: Day) -> list[str]:
    logs = ServedLogs(kind="served", log=".", train_days=1).parts
    [files] = listed_days(logs, [day], log, LightStorage())
    return [file.path for file in files if file.facts]


def _chosen(paths: Sequence[str], num_requests: int) -> pa.Array:
    """Returns the ids with the smallest hashes; in memory are so many and those of a part of a file."""
    chosen: dict[bytes, bytes] = {}
    for path in paths:
        with open_light(path) as file:
            for ids in parquet.texts_of(file, path, REQUEST_ID):
                hashed = {hashlib.blake2b(each, digest_size=8).digest(): each for each in ids.to_pylist() if each}
                chosen = dict(heapq.nsmallest(num_requests, (chosen | hashed).items()))
    return pa.array(chosen.values(), pa.binary())


def _rows(path: str, columns: Sequence[Column], requests: pa.Array) -> Iterator[pa.Table]:
    with open_light(path) as file:
        for rows in parquet.read(file, path, columns, parquet.Only(REQUEST_ID, requests)):
            if not rows.batch.num_rows:
                continue
            found = rows.batch.schema.names
            if absent := [column.name for column in columns if column.name not in found]:
                what = f"is missing (got {listed(found)}); check the version that logged it"
                raise UserError(f"{path}: column '{absent[0]}': {what}")
            yield pa.table(canonical(rows.batch, columns, path))


def _numbers_within(requests: pa.Array) -> NDArray[np.int64]:
    """Returns the number of each row within its request."""
    codes = np.asarray(requests.dictionary_encode().indices)
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    lengths = np.diff(np.append(starts, len(codes)))
    result = np.empty(len(codes), np.int64)
    result[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return result
