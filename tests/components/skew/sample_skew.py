"""Rows that a server saw, and the same by the logs: requests of candidates whose counts come from a table of posts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sangam.components.skew.comparing import Offline
from sangam.components.skew.versions import Versions

KEYS = ("request_id", "post")
NOW_S, HOUR_S = 1_750_000_000, 3600
_REQUESTS, _CANDIDATES = 60, 4
_ROWS = _REQUESTS * _CANDIDATES

Column = Sequence[Any]
Columns = dict[str, Column]


def _columns() -> Columns:
    draws = np.random.default_rng(7)
    request = np.arange(_ROWS) // _CANDIDATES
    tags = [[f"t{number}" for number in draws.permutation(9)[: 1 + row % 6]] for row in range(_ROWS)]
    return {
        "request_id": [f"r{number}" for number in request],
        "post": [f"p{number}" for number in draws.permutation(_ROWS)],
        "user": [f"User é{number}" for number in request],
        "likes": draws.integers(10_000, 2_000_000, _ROWS).tolist(),
        "views": draws.integers(10_000, 2_000_000, _ROWS).tolist(),
        "is_new": (draws.random(_ROWS) < 0.3).astype(int).tolist(),
        "length_ms": draws.integers(3_000, 60_000, _ROWS).tolist(),
        "score": draws.random(_ROWS).tolist(),
        "hour": draws.integers(0, 24, _ROWS).tolist(),
        "published": (NOW_S - draws.integers(0, 40 * 86_400, _ROWS)).tolist(),
        "price": [None if row % 5 == 0 else 10 + row / 3 for row in range(_ROWS)],
        "tags": [[] if row % 7 == 0 else each for row, each in enumerate(tags)],
        "vector": draws.random((_ROWS, 3)).tolist(),
    }


COLUMNS = _columns()
AGES_S = np.random.default_rng(3).permutation(_ROWS) * 60.0
"""Ages of the versions as of the requests: up to 4 hours."""
EARLIER = [value - 1000 - row for row, value in enumerate(COLUMNS["likes"])]
LATER = [value + 777 for value in COLUMNS["likes"]]


def table(columns: Mapping[str, Column]) -> pa.Table:
    """Returns columns in the types of a join."""
    return pa.table({name: array(values) for name, values in columns.items()})


def array(values: Column) -> pa.Array:
    return pa.array([_as_bytes(value) for value in values])


def _as_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_bytes(each) for each in value]
    return value.encode() if isinstance(value, str) else value


def offline() -> Offline:
    """Returns what the logs say."""
    at_s = np.full(_ROWS, float(NOW_S))
    likes = Versions([array(EARLIER)], array(LATER), at_s - AGES_S, at_s)
    return Offline(table(COLUMNS), {"likes": likes})


def each(change: Callable[[Any], Any]) -> Callable[[Column], Column]:
    """Returns a change of every value that is there."""
    return lambda values: [value if value is None else change(value) for value in values]


def faulty(**changes: Callable[[Column], Column]) -> pa.Table:
    """Returns what a server saw that changed some columns."""
    return table({name: changes[name](values) if name in changes else values for name, values in COLUMNS.items()})


def at_rows(rows: Any, values: Column) -> Callable[[Column], Column]:
    """Returns a change of some rows."""
    return lambda old: [new if is_it else value for is_it, new, value in zip(rows, values, old, strict=True)]


def moved(values: Column) -> Column:
    """Returns the values of each request moved on by one candidate."""
    starts = range(0, _ROWS, _CANDIDATES)
    return [value for start in starts for value in [*values[start + 1 : start + _CANDIDATES], values[start]]]
