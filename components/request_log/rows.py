"""Answered requests as record batches, a row for each; `schemas/contracts/request_log.py` has their columns."""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.request_log.examples import inputs_of_examples
from sangam.components.request_log.served import Arrays, Plan, Served
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.contracts.request_log import (
    AT,
    CANDIDATE,
    DELTA,
    EVENT_TIME_KEY,
    FORMAT,
    FORMAT_KEY,
    NUM_CANDIDATES,
    POSITION,
    PROPENSITY,
    REQUEST_ID,
    SCORE,
    SHADOW_SCORE,
    SHADOW_VERSION,
    VERSION,
)
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING
from sangam.schemas.parts.columns import ColumnType

_TYPES: dict[ColumnType, pa.DataType] = {"int": pa.int64(), "float": pa.float32(), "string": pa.binary()}
_MICROSECONDS = 1e6

# Shape suffixes: Q requests, R rows of an input: 1 or all candidates, C logged candidates, W width of a list.


def look_for_pandas() -> None:
    """Lets Arrow look for pandas, as it does with its first array.

    Where `leave_out_needless` has taken pandas away this one look fails, and later ones find that there is none.
    """
    with contextlib.suppress(AttributeError):
        pa.array([0])


def schema_of(plan: Plan) -> pa.Schema:
    """Returns the columns of a version's requests."""
    own = [
        (REQUEST_ID, pa.string()),
        (AT, pa.timestamp("us", "UTC")),
        (VERSION, pa.int64()),
        (DELTA, pa.int64()),
        (NUM_CANDIDATES, pa.int32()),
        (CANDIDATE, pa.list_(pa.int32())),
        (POSITION, pa.list_(pa.int64())),
        (PROPENSITY, pa.list_(pa.float32())),
        (SHADOW_VERSION, pa.int64()),
    ]
    scores = [(begin + task, pa.list_(pa.float32())) for task in plan.tasks for begin in (SCORE, SHADOW_SCORE)]
    columns = [(name, _type(column)) for name, column in plan.columns.items()]
    told = {FORMAT_KEY: str(FORMAT).encode(), EVENT_TIME_KEY: plan.event_time.encode()}
    return pa.schema([*own, *scores, *columns], metadata=told)


def batch_of(plan: Plan, requests: Sequence[Served], key: bytes) -> pa.RecordBatch:
    """Returns requests of one version as rows.

    Args:
        plan: what is logged of that version.
        requests: at least one.
        key: key of hashed columns.
    """
    places = [plan.places(each.request_id, each.num_candidates) for each in requests]
    inputs = [
        inputs_of_examples(plan.columns, each.inputs["examples"]) if each.inputs.keys() == {"examples"} else each.inputs
        for each in requests
    ]
    arrays = [
        pa.array([each.request_id for each in requests]),
        pa.array(np.array([each.at_s * _MICROSECONDS for each in requests]).astype(np.int64)).cast(pa.timestamp("us")),
        pa.array([plan.version] * len(requests), pa.int64()),
        pa.array([each.delta for each in requests], pa.int64()),
        pa.array([each.num_candidates for each in requests], pa.int32()),
        _lists(places, pa.int32()),
        _lists([_of(each.position, at) for each, at in zip(requests, places, strict=True)], pa.int64()),
        _lists([_of(each.propensity, at) for each, at in zip(requests, places, strict=True)], pa.float32()),
        pa.array([each.shadow_version for each in requests], pa.int64()),
    ]
    for task in plan.tasks:
        for scores in ([each.scores for each in requests], [each.shadow_scores for each in requests]):
            of_task = [_of(each.get(task), at) for each, at in zip(scores, places, strict=True)]
            arrays.append(_lists(of_task, pa.float32()))
    for name, column in plan.columns.items():
        arrays.append(_column(plan, name, column, inputs, places, key))
    schema = schema_of(plan)
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema
    )


def _type(column: ServedColumn) -> pa.DataType:
    value = _TYPES[column.type]
    return pa.list_(pa.list_(value) if column.is_list else value)


def _column(
    plan: Plan,
    name: str,
    column: ServedColumn,
    inputs: Sequence[Arrays],
    places: Sequence[NDArray[np.int64] | None],
    key: bytes,
) -> pa.Array:
    """Returns a column: for each request a list with the value, or the list, of each of its rows."""
    treatment = plan.settings.redact.get(name)
    if treatment == "drop":
        return pa.nulls(len(inputs), _type(column))
    given_Q = [_of(each[column.input], at) for each, at in zip(inputs, places, strict=True)]
    rows_Q = [len(given) for given in given_Q]
    lengths = None
    if column.is_list:
        lengths_Q = [_of(each[column.input + LENGTH], at) for each, at in zip(inputs, places, strict=True)]
        given_Q = [
            given_RW[np.arange(given_RW.shape[1]) < length_R[:, None]]
            for given_RW, length_R in zip(given_Q, lengths_Q, strict=True)
        ]
        lengths = np.concatenate(lengths_Q)
    values = np.concatenate(given_Q)
    if treatment == "hash":
        values = _hashed(values, column.type, key)
    array = pa.array(values.tolist(), pa.binary()) if column.type == "string" else pa.array(values)
    if lengths is not None:
        array = _listed(lengths, array)
    return _listed(rows_Q, array)


def _of(array: NDArray[Any] | None, places: NDArray[np.int64] | None) -> Any:
    """Returns the rows of the logged candidates; a single row stands for all."""
    if array is None or places is None or len(array) == 1:
        return array
    return array[places]


def _lists(parts: Sequence[NDArray[Any] | None], kind: pa.DataType) -> pa.Array:
    """Returns a list for each request, null where there is no part."""
    lengths = [0 if part is None else len(part) for part in parts]
    if not any(lengths):
        return pa.nulls(len(parts), pa.list_(kind))
    values = np.concatenate([part.reshape(-1) for part in parts if part is not None])
    mask = np.array([part is None for part in parts])
    return _listed(lengths, pa.array(values).cast(kind), mask)


def _listed(lengths: Sequence[int] | NDArray[Any], values: pa.Array, mask: NDArray[np.bool_] | None = None) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=None if mask is None else pa.array(mask))


def _hashed(values: NDArray[Any], kind: ColumnType, key: bytes) -> NDArray[Any]:
    """Returns a keyed hash in place of each value, of its type; a missing value stays missing."""
    digest: Callable[[Any, bytes], Any] = _of_text if kind == "string" else _of_number
    distinct, at = np.unique(values, return_inverse=True)
    hashed = [value if value == MISSING[kind] else digest(value, key) for value in distinct.tolist()]
    return np.array(hashed, values.dtype)[at]


def _of_text(value: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16, key=key).hexdigest().encode()


def _of_number(value: int, key: bytes) -> int:
    digest = hashlib.blake2b(value.to_bytes(8, "big", signed=True), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") >> 1
