"""Joins the rows of a day with the history before it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorflow as tf

from sangam.components.steps.transform.history.counts import KeysFn
from sangam.components.steps.transform.history.tables import read_tables
from sangam.components.steps.transform.tensors import tensors_of
from sangam.schemas.derived.columns import history_of


class JoinHistory:
    """Returns history columns from one folder of tables.

    Attributes:
        columns: names of the columns.
    """

    def __init__(self, folder: str, keys_fn: KeysFn):
        """Takes the folder, and the function that converts columns to keys."""
        self._tables, self._keys_fn = read_tables(Path(folder)), keys_fn
        self.columns = frozenset(history_of(name) for table in self._tables for name in table.group.features)

    def columns_of(self, rows: pa.RecordBatch) -> dict[str, tf.SparseTensor]:
        """Returns for every feature a column with one number in each row: [rows, 1]."""
        found = {}
        row_R = np.arange(rows.num_rows)
        for table in self._tables:
            columns = tensors_of(rows, [column for column, _ in table.group.by])
            values_RF = table.values_of(self._keys_fn(columns, dict(table.group.by)).numpy())
            for name, values_R in zip(table.group.features, values_RF.T, strict=True):
                found[history_of(name)] = tf.SparseTensor(
                    np.stack([row_R, np.zeros_like(row_R)], 1), values_R, [rows.num_rows, 1]
                )
        return found
