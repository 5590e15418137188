"""Hostile requests: each must get finite scores or a client error."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sangam.components.steps.infra_validator.rows import (
    Description,
    Rows,
    Tensors,
    example_inputs,
    rank_inputs,
    to_examples,
)
from sangam.schemas.contracts.export import RANK, SERVE, ServedColumn

CLEAN_CODES = frozenset(
    {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED"}
)
"""gRPC codes of a client's error; UNKNOWN or INTERNAL would be the server's."""
LARGE_BYTES = 10_000_000
_UNKNOWN_INT = 2**53 + 12_345
_ONE_MORE: Mapping[str, Any] = {"float": 0.5, "int": 1, "string": b"x"}
"""A value of each type of column."""
_EXTREMES = (2**63 - 1, -(2**63))


@dataclass(frozen=True)
class HostileRequest:
    """A request with its expected answer.

    Attributes:
        kind: name of the unusual part.
        signature: signature to call.
        tensors: inputs.
        must_score: whether it is legitimate and must not get an error.
    """

    kind: str
    signature: str
    tensors: Tensors
    must_score: bool = False


def hostile_requests(rows: Rows, description: Description) -> Iterator[HostileRequest]:
    """Yields the requests, made from a few ordinary rows."""
    columns = description.columns
    unknown = rows | {name: _unknown(rows[name], columns[name]) for name in description.id_columns if name in rows}
    # Every list of ids has one id now, and so must the lists beside it.
    unknown |= {
        name: [[_ONE_MORE[columns[name].type]] for _ in rows[name]]
        for name in _beside(description)
        if name not in description.id_columns
    }
    yield from _both("unknown ids", unknown, columns, must_score=True)
    yield from _missing(rows, columns)
    yield from _empty(rows, description)
    yield from _wrong_type(rows, columns)
    yield from _wrong_length(rows, description)
    yield from _large(rows, columns)
    floats = [name for name, column in columns.items() if column.type == "float"]
    if floats:
        # Lists keep their lengths, so that only the numbers are wrong.
        lengths = {name: [len(row) if columns[name].is_list else 1 for row in rows[name]] for name in floats}
        nan = {name: [[math.nan] * length for length in lengths[name]] for name in floats}
        yield from _both("NaN", rows | nan, columns)
    times = [name for name in description.time_columns if name in rows]
    if times:
        extreme = {
            name: [
                [_EXTREMES[row % 2]] * (len(values) if columns[name].is_list else 1)
                for row, values in enumerate(rows[name])
            ]
            for name in times
        }
        yield from _both("extreme times", rows | extreme, columns)


def _beside(description: Description) -> list[str]:
    """Returns the list columns that must be as long as another column, such as weights."""
    return [name for name, column in description.spec_columns.items() if column.beside and name in description.columns]


def _vectors(description: Description) -> dict[str, int]:
    """Returns the vector columns with their lengths."""
    columns = description.spec_columns.items()
    return {name: column.length for name, column in columns if column.length and name in description.columns}


def _both(
    kind: str, rows: Rows, columns: Mapping[str, ServedColumn], *, must_score: bool = False
) -> Iterator[HostileRequest]:
    yield HostileRequest(kind, SERVE, example_inputs(to_examples(rows, columns)), must_score)
    yield HostileRequest(kind, RANK, rank_inputs(rows, columns), must_score)


def _unknown(values: list[list[Any]], column: ServedColumn) -> list[list[Any]]:
    def ids(row: int) -> list[Any]:
        if column.type == "string":
            return [f"sangam-never-seen-{row}".encode()]
        return [_UNKNOWN_INT + row]

    return [ids(row) for row in range(len(values))]


def _missing(rows: Rows, columns: Mapping[str, ServedColumn]) -> Iterator[HostileRequest]:
    yield HostileRequest("missing features", SERVE, example_inputs([b""]))
    tensors = rank_inputs(rows, columns)
    yield HostileRequest("missing features", RANK, {})
    yield HostileRequest("missing features", RANK, {name: tensors[name] for name in sorted(tensors)[1:]})
    absent: Rows = {name: [[] for _ in values] for name, values in rows.items()}
    yield HostileRequest("missing features", RANK, rank_inputs(absent, columns))


def _empty(rows: Rows, description: Description) -> Iterator[HostileRequest]:
    columns, vectors = description.columns, _vectors(description)
    nothing: Rows = {name: [] for name in rows}
    yield from _both("empty list", nothing, columns)
    lists = [name for name in rows if columns[name].is_list and name not in vectors]
    yield from _both("empty list", rows | {name: [[] for _ in rows[name]] for name in lists}, columns, must_score=True)


def _wrong_length(rows: Rows, description: Description) -> Iterator[HostileRequest]:
    for name in _vectors(description):
        yield from _both("wrong length", rows | {name: [[*values, 0.5] for values in rows[name]]}, description.columns)
    for name in _beside(description):
        kind = description.columns[name].type
        longer = {name: [[*values, _ONE_MORE[kind]] for values in rows[name]]}
        yield from _both("wrong length", rows | longer, description.columns)
        if kind == "float":
            # Right length, but all 0: a weighted mean divides 0 by 0.
            zeros = rows | {name: [[0.0] * len(values) for values in rows[name]]}
            yield from _both("weights of 0", zeros, description.columns, must_score=True)


def _wrong_type(rows: Rows, columns: Mapping[str, ServedColumn]) -> Iterator[HostileRequest]:
    yield HostileRequest("wrong type", SERVE, {"examples": np.array([1, 2], np.int64)})
    yield HostileRequest("wrong type", SERVE, example_inputs([b"\xffno tf.Example"]))
    swapped = {
        name: values.astype(np.object_) if values.dtype != np.object_ else np.zeros(values.shape, np.float32)
        for name, values in rank_inputs(rows, columns).items()
    }
    texts = {
        name: np.full(values.shape, b"text", np.object_) if values.dtype == np.object_ else values
        for name, values in swapped.items()
    }
    yield HostileRequest("wrong type", RANK, texts)


def _large(rows: Rows, columns: Mapping[str, ServedColumn]) -> Iterator[HostileRequest]:
    texts = [name for name, column in columns.items() if column.type == "string"]
    lists = [name for name, column in columns.items() if column.is_list]
    values: list[list[Any]] = []
    if texts:
        values = [[b"x" * LARGE_BYTES]]
    elif lists:
        values = [[1] * (LARGE_BYTES // 8)] if columns[lists[0]].type == "int" else [[0.5] * (LARGE_BYTES // 4)]
    one = {name: row[:1] for name, row in rows.items()}
    if texts or lists:
        yield from _both("10 MB", one | {(texts or lists)[0]: values}, columns)
        return
    # There are only scalar numbers: send enough rows for 10 MB.
    many = LARGE_BYTES // (8 * len(columns))
    yield HostileRequest("10 MB", RANK, rank_inputs({name: row * many for name, row in one.items()}, columns))
