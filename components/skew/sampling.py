"""Takes a sample of the logged requests of a day, a row for each candidate."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.files.day_files import listed_days
from sangam.components.logs.files.light_storage import LightStorage, open_light
from sangam.components.logs.joining.canonical import canonical, canonical_type
from sangam.components.logs.readers import formats
from sangam.schemas.contracts.request_log import AT, REQUEST_ID
from sangam.schemas.derived.days import Day
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs, ServedLogs

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
    logs = ServedLogs(kind="served", log=".", train_days=1).parts
    [files] = listed_days(logs, [day], log, LightStorage())
    paths = [file.path for file in files if file.facts]
    chosen = _chosen([_rows(logs, path, [_ID], None) for path in paths], num_requests)
    read = list({column.name: column for column in (_ID, _AT, *columns)}.values())
    empty = pa.table({column.name: pa.array([], canonical_type(column)) for column in read})
    table = pa.concat_tables([empty, *(_rows(logs, path, read, chosen) for path in paths)])
    return table.append_column(CANDIDATE, pa.array(_numbers_within(table[REQUEST_ID].combine_chunks())))


def _chosen(ids: Sequence[pa.Table], num_requests: int) -> pa.Array:
    distinct = {each for table in ids for each in table[REQUEST_ID].unique().to_pylist() if each}
    drawn = sorted(distinct, key=lambda each: hashlib.blake2b(each, digest_size=8).digest())
    return pa.array(drawn[:num_requests], pa.binary())


def _rows(logs: DayLogs, path: str, columns: Sequence[Column], chosen: pa.Array | None) -> pa.Table:
    """Returns columns of the rows of a file; None for `chosen`: of all requests."""
    with open_light(path) as file:
        tables = []
        for rows in formats.read(logs, file, path, columns):
            table = pa.table(canonical(rows.batch, columns, path))
            tables.append(table if chosen is None else table.filter(pc.is_in(table[REQUEST_ID], chosen)))
    return (
        pa.concat_tables(tables)
        if tables
        else pa.table({each.name: pa.array([], canonical_type(each)) for each in columns})
    )


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
