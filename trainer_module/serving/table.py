"""The interface of a served table of rows, in either form."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.serving.row_types import Rows, RowType
from sangam.trainer_module.serving.trained_rows import TrainedRows
from sangam.trainer_module.transforms.keys import ID_BITS, tags_of

# Shape suffixes: n keys, D dimension, S width of a stored row.


class ServedTable(tf.Module, ABC):
    """Rows of one group of tables. Reading changes nothing: an unknown id reads as its table's default."""

    def __init__(self, group: Group, rows: Rows):
        super().__init__()
        self.group = group
        self.row_type = RowType(rows, group.dim)
        # By tag; the tag of `NO_ID` is 0, and an absent id reads as zeros.
        self._defaults: NDArray[Any] = np.zeros([max(group.tags.values()) + 1, 1], np.float32)
        for table, tag in group.tags.items():
            self._defaults[tag] = group.tables[table].default_value

    def __call__(self, keys_n: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings of keys: [n] int64 to [n, dim]."""
        return self.read(keys_n)[0]

    def read(self, keys_n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the embeddings of keys, and which of them have a row: [n] int64 to [n, dim] and [n] bool."""
        rows_nD, is_known_n = self.find(keys_n)
        defaults_n1 = tf.gather(self._defaults, tf.minimum(tags_of(keys_n), len(self._defaults) - 1))
        return tf.where(is_known_n[:, None], rows_nD, defaults_n1), is_known_n

    def upsert(self, keys_n: tf.Tensor, rows_nD: tf.Tensor) -> tf.Tensor:
        """Adds or replaces whole rows; returns their number, int64 scalar.

        Args:
            keys_n: int64, each once, from `sangam.trainer_module.transforms.keys` for ids of this group's tables.
            rows_nD: float32; stored as the spec's `export.rows`.

        Raises:
            InvalidArgumentError: by the graph, before any row is changed.
        """
        with tf.control_dependencies(self._checks("upsert", keys_n, rows_nD)):
            stored_nS = self.row_type.pack(tf.identity(rows_nD))
        with tf.control_dependencies([self.insert(keys_n, stored_nS)]):
            return tf.size(keys_n, tf.int64)

    def remove(self, keys_n: tf.Tensor) -> tf.Tensor:
        """Removes rows; returns the number of keys that had one, int64 scalar."""
        with tf.control_dependencies(self._checks("remove", keys_n)):
            keys_n = tf.identity(keys_n)
        _, had_row_n = self.find(keys_n)
        with tf.control_dependencies([had_row_n]):
            erased = self.erase(keys_n)
        with tf.control_dependencies([erased]):
            return tf.math.count_nonzero(had_row_n)

    def _checks(self, signature: str, keys_n: tf.Tensor, rows_nD: tf.Tensor | None = None) -> list[tf.Operation]:
        tags = tf.constant([tag << ID_BITS for tag in self.group.tags.values()], tf.int64)
        high_n1 = tf.bitwise.bitwise_and(keys_n, tf.constant(-1 << ID_BITS, tf.int64))[:, None]
        is_of_group = tf.reduce_all(tf.reduce_any(tf.equal(high_n1, tags), axis=1))
        tables = ", ".join(sorted(self.group.tags))
        checks = [
            tf.debugging.Assert(
                is_of_group,
                [f"{signature}: keys are not of the tables {tables}; make them with trainer_module.transforms.keys"],
            )
        ]
        if rows_nD is None:
            return checks
        num_keys, num_rows = tf.size(keys_n), tf.shape(rows_nD)[0]
        checks.append(
            tf.debugging.Assert(
                tf.equal(num_keys, num_rows), [f"{signature}: one row for each key is needed; got", num_keys, num_rows]
            )
        )
        checks.append(
            tf.debugging.Assert(
                tf.equal(tf.size(tf.unique(keys_n)[0]), num_keys), [f"{signature}: a key is given twice"]
            )
        )
        is_finite = tf.reduce_all(tf.math.is_finite(rows_nD))
        checks.append(tf.debugging.Assert(is_finite, [f"{signature}: rows hold NaN or infinity"]))
        return checks

    def packed(
        self, trained: TrainedRows, row_numbers: NDArray[Any] | None, more: NDArray[Any] | None = None
    ) -> tf.Variable:
        """Returns the stored form of all rows, in one piece: [n, width].

        They are written block by block to their row numbers, without a second copy of all of them.

        Args:
            trained: the rows.
            row_numbers: place of each row, [n]; None: their order.
            more: rows behind them, [m, dim]; None: none.
        """
        num = len(trained.keys)
        shape = [num if more is None else num + len(more), self.row_type.width]
        room = tf.raw_ops.Empty(shape=shape, dtype=self.row_type.dtype)
        rows = tf.Variable(room, shape=[None, shape[1]], trainable=False)
        for part, block in trained.parts():
            targets = np.arange(part.start, part.stop) if row_numbers is None else row_numbers[part]
            rows.scatter_update(tf.IndexedSlices(self.row_type.pack(tf.constant(block)), targets))
        if more is not None:
            rows.scatter_update(tf.IndexedSlices(self.row_type.pack(tf.constant(more)), np.arange(num, shape[0])))
        return rows

    @abstractmethod
    def find(self, keys_n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns rows, undefined for unknown keys, and which keys are known: [n] to [n, dim] and [n] bool."""

    @abstractmethod
    def insert(self, keys_n: tf.Tensor, stored_nS: tf.Tensor) -> tf.Operation:
        """Adds or replaces packed rows."""

    @abstractmethod
    def erase(self, keys_n: tf.Tensor) -> tf.Operation:
        """Removes rows; ignores unknown keys."""

    @abstractmethod
    def num_rows(self) -> tf.Tensor:
        """Returns the number of keys that have a row: int64 scalar."""

    def variables_by_attribute(self) -> dict[str, tf.Variable]:
        """Returns the variables that hold the rows, by the attribute's name."""
        return {}

    @abstractmethod
    def release(self) -> tf.Operation:
        """Frees the table's memory; it is unusable afterwards."""
