"""Counts before a day: keys of ids, and the newest tables, which give the columns that requests lack."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from sangam.schemas.contracts.history import FOLDER, HistoryTable, history_beside, keys_file, values_file
from sangam.schemas.derived.columns import history_of
from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec.features import CrossFeature, IdFeature
from sangam.trainer_module.transforms.ids import keys_of_ids, keys_of_pairs
from sangam.trainer_module.transforms.stacked import Logged

_NAME = "by"
_TAGS = {_NAME: 1}
"""One tag serves all tables: each has its own keys."""
_NO_KEY = -1
"""A number less than every key: the one entry of a table without keys, so that it can be searched."""

# Shape suffixes: R rows of a column, 1 or as many as candidates; n keys of a table; F features of a table.


def history_keys(by: Mapping[str, IdType], columns: Mapping[str, Logged]) -> tf.Tensor:
    """Returns the key of each row's id or pair of ids, `NO_ID` where it has none: int64 [R].

    Args:
        by: columns and the types of their ids, one or two.
        columns: columns by name.
    """
    in_order = [columns[column] for column in sorted(by)]
    if len(by) == 1:
        [kind] = by.values()
        found = keys_of_ids({_NAME: IdFeature(kind="id", type=kind, table=_NAME)}, _TAGS, {_NAME: in_order[0]})
    else:
        pair = CrossFeature(kind="cross", columns=dict(by), table=_NAME)
        found = keys_of_pairs({_NAME: pair}, _TAGS, {_NAME: in_order})
    return found[_NAME].tensor()


class HistoryTables(tf.Module):
    """The newest tables. Constant: a daily run exports its own.

    Attributes:
        columns: names of the columns that it adds.
        as_of: YYYY-MM-DD; only earlier days count. None without tables.
    """

    def __init__(self, graph: str):
        """Loads the tables in the folder of a Transform artifact; without tables it adds no columns."""
        super().__init__()
        folder = Path(graph, FOLDER)
        history = history_beside(graph)
        self.as_of = history.as_of if history else None
        tables = history.tables if history else ()
        self._tables = [_Table(table, folder, number) for number, table in enumerate(tables)]
        self.columns = tuple(history_of(name) for table in tables for name in table.defaults)

    def __call__(
        self, columns: Mapping[str, Logged], repeated: Mapping[str, Logged] | None = None
    ) -> dict[str, tf.SparseTensor]:
        """Returns a column of one number in each row for every feature, of columns of the logs.

        Args:
            columns: columns by name.
            repeated: see `OfSeveral`.
        """
        found: dict[str, tf.SparseTensor] = {}
        for table in self._tables:
            found |= table.columns_of({**columns, **(repeated or {})} if table.has_pairs else columns)
        return found

    def release(self) -> list[tf.Operation]:
        """Frees the memory of the tables."""
        return [operation for table in self._tables for operation in table.release()]


class _Table(tf.Module):
    """A binary search over sorted keys."""

    def __init__(self, table: HistoryTable, folder: Path, number: int):
        super().__init__()
        self._by, self._names = dict(table.by), tuple(table.defaults)
        self.has_pairs = len(self._by) > 1
        defaults = [math.nan if default is None else default for default in table.defaults.values()]
        self._default_F = np.asarray(defaults, np.float32)
        keys_n, values_nF = (np.load(folder / name(number)) for name in (keys_file, values_file))
        if not len(keys_n):
            keys_n, values_nF = np.full(1, _NO_KEY), self._default_F[None]
        name = f"history_{number}"
        self._keys = tf.Variable(keys_n, dtype=tf.int64, shape=[None], trainable=False, name=f"{name}_keys")
        self._values = tf.Variable(values_nF, shape=[None, len(self._names)], trainable=False, name=f"{name}_values")

    def columns_of(self, columns: Mapping[str, Logged]) -> dict[str, tf.SparseTensor]:
        keys_R = history_keys(self._by, columns)
        # Gathered from a read value: a variable that is gathered from would be copied at every read.
        keys_n = self._keys.read_value()
        number_R = tf.minimum(tf.searchsorted(keys_n, keys_R, out_type=tf.int64), tf.size(keys_n, tf.int64) - 1)
        is_known_R = tf.equal(tf.gather(keys_n, number_R), keys_R)
        values_RF = tf.where(is_known_R[:, None], tf.gather(self._values, number_R), self._default_F)
        return {
            history_of(name): _column(values_R)
            for name, values_R in zip(self._names, tf.unstack(values_RF, num=len(self._names), axis=1), strict=True)
        }

    def release(self) -> list[tf.Operation]:
        return [
            self._keys.assign(tf.zeros([0], tf.int64)),
            self._values.assign(tf.zeros([0, len(self._names)], tf.float32)),
        ]


def _column(values_R: tf.Tensor) -> tf.SparseTensor:
    rows = tf.size(values_R, tf.int64)
    row_R = tf.range(rows)
    return tf.SparseTensor(tf.stack([row_R, tf.zeros_like(row_R)], 1), values_R, tf.stack([rows, 1]))
