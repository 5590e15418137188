"""Days of the demo's logs as inputs of `rank`, as requests of one user with many candidates, and as tf.Examples."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING

Arrays = dict[str, NDArray[Any]]
CONTEXT = ("user_id", "language", "tab", "recent_posts", "network_mbps", "hour")
"""Columns of the demo with one row for all candidates."""
_TYPES = {"string": np.object_, "int": np.int64, "float": np.float32}


def tables(logs: Path) -> list[pa.Table]:
    """Returns the logs, day after day."""
    return [pq.read_table(day) for day in sorted(each for each in logs.iterdir() if each.is_dir())]


def inputs(day: pa.Table, columns: Mapping[str, ServedColumn]) -> Arrays:
    """Returns a day as inputs of `rank`, a row for each."""
    arrays: Arrays = {}
    for name, column in columns.items():
        values = day[name].combine_chunks()
        if not column.is_list:
            arrays[column.input] = _array(values, column)
            continue
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        padded = np.full([len(lengths), max(1, lengths.max())], MISSING[column.type], _TYPES[column.type])
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = _array(values.flatten(), column)
        arrays |= {column.input: padded, f"{column.input}{LENGTH}": lengths}
    return arrays


def request(day: Arrays, user: int, candidates: NDArray[np.int64]) -> Arrays:
    """Returns the request of the user of one row for the posts of others."""
    return {
        name: array[[user]] if name.removesuffix(LENGTH) in CONTEXT else array[candidates]
        for name, array in day.items()
    }


def examples(arrays: Arrays, columns: Mapping[str, ServedColumn]) -> NDArray[np.object_]:
    """Returns a request as serialized tf.Examples, one for each candidate."""
    count = max(map(len, arrays.values()))
    rows = {name: array if len(array) == count else np.repeat(array, count, 0) for name, array in arrays.items()}
    serialized = []
    for row in range(count):
        example = tf.train.Example()
        for name, column in columns.items():
            values = rows[column.input][row : row + 1]
            if column.is_list:
                values = values[0, : rows[f"{column.input}{LENGTH}"][row]]
            feature = example.features.feature[name]
            match column.type:
                case "string":
                    feature.bytes_list.value.extend(value for value in values if value)
                case "int":
                    feature.int64_list.value.extend(values[values != MISSING["int"]])
                case "float":
                    feature.float_list.value.extend(values[np.isfinite(values)])
        serialized.append(example.SerializeToString())
    return np.array(serialized, np.object_)


def _array(values: pa.Array, column: ServedColumn) -> NDArray[Any]:
    missing = MISSING[column.type]
    if column.type == "string":
        return np.array([missing if value is None else value.encode() for value in values.to_pylist()], np.object_)
    return pc.fill_null(values, missing).to_numpy(zero_copy_only=False).astype(_TYPES[column.type])
