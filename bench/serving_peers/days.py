"""Days of the demo's logs as inputs of `rank`, and as requests of one user with many candidates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.demo import CONTEXT
from sangam.components.arrow_files import open_parquet
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING

Arrays = dict[str, NDArray[Any]]
_TYPES = {"string": np.object_, "int": np.int64, "float": np.float32}


def tables(logs: Path) -> list[pa.Table]:
    """Returns the logs, day after day."""
    days = sorted(each for each in logs.iterdir() if each.is_dir())
    return [pa.concat_tables(open_parquet(file).read() for file in sorted(day.glob("*.parquet"))) for day in days]


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


def _array(values: pa.Array, column: ServedColumn) -> NDArray[Any]:
    missing = MISSING[column.type]
    if column.type == "string":
        return np.array([missing if value is None else value.encode() for value in values.to_pylist()], np.object_)
    return pc.fill_null(values, missing).to_numpy(zero_copy_only=False).astype(_TYPES[column.type])
