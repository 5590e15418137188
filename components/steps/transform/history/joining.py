"""Joins the rows of a day with the history before it."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from sangam.components.steps.transform.history.keys import KeysFn, keys_of
from sangam.components.steps.transform.history.tables import read_tables
from sangam.schemas.derived.columns import history_of


class JoinHistory:
    """Finds history columns in one folder of tables."""

    def __init__(self, folder: str, keys_fn: KeysFn):
        """Takes the folder, and the function that converts columns to keys."""
        self._tables, self._keys_fn = read_tables(Path(folder)), keys_fn

    def values_of(self, rows: pa.RecordBatch) -> dict[str, NDArray[np.float32]]:
        """Returns for every feature, by the name of its column, a number for each row."""
        found = {}
        keys = keys_of(self._keys_fn, [table.group.by for table in self._tables], rows)
        for table, keys_R in zip(self._tables, keys, strict=True):
            for name, values_R in zip(table.group.features, table.values_of(keys_R).T, strict=True):
                found[history_of(name)] = values_R
        return found


def columns_of(values: Mapping[str, NDArray[np.float32]]) -> dict[str, tf.SparseTensor]:
    """Returns numbers as columns with one in each row: [rows, 1]."""
    found = {}
    for name, values_R in values.items():
        row_R = np.arange(len(values_R))
        found[name] = tf.SparseTensor(np.stack([row_R, np.zeros_like(row_R)], 1), values_R, [len(values_R), 1])
    return found
