"""A log in memory: columns made of earlier days alone, and its days as files."""

import datetime
from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.lagged import before

DAY_S = 86_400


def codes(*columns: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Returns a number for each different value, or combination of values; nulls are a value of their own."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = chunk.dictionary_encode()
        code = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        found = found * (len(encoded.dictionary) + 1) + code
    return found


def rows_before(ids_N: NDArray[np.int64], time_s_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many rows of earlier days have the id."""
    return before(ids_N, time_s_N // DAY_S, np.ones(len(ids_N))).astype(np.int64)


def recent_before(
    users: Sequence[Hashable], items: Sequence[Hashable], time_s_N: NDArray[np.int64], most: int
) -> list[list[Hashable]]:
    """Returns each user's last distinct items of earlier days, newest first, for rows in the order of time."""
    newest_last: dict[Hashable, dict[Hashable, None]] = defaultdict(dict)
    found: list[list[Hashable]] = []
    for _, of_day in groupby(range(len(users)), key=(time_s_N // DAY_S).tolist().__getitem__):
        rows = list(of_day)
        known = {user: list(reversed(newest_last[user]))[:most] for user in {users[row] for row in rows}}
        for row in rows:
            found.append(known[users[row]])
            newest_last[users[row]].pop(items[row], None)
            newest_last[users[row]][items[row]] = None
    return found


def calendar(time_s_N: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Returns the hour and the weekday, Monday being 0."""
    return {"hour": time_s_N % DAY_S // 3600, "weekday": (time_s_N // DAY_S + 3) % 7}


def write_days(table: pa.Table, folder: Path) -> None:
    """Writes a file for each day of `event_time` (seconds since 1970), whose rows are in the order of time."""
    days_N = table["event_time"].to_numpy() // DAY_S
    starts = [*np.flatnonzero(np.diff(days_N, prepend=-1)), len(days_N)]
    for start, end in pairwise(starts):
        day = folder / str(datetime.date(1970, 1, 1) + datetime.timedelta(days=int(days_N[start])))
        day.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(start, end - start), day / "rows.parquet")
