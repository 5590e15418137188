"""Rows in TensorFlow's own operations: a binary search over sorted keys, and a small table of later changes."""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.serving.row_types import Rows
from sangam.trainer_module.serving.table import ServedTable
from sangam.trainer_module.serving.trained_rows import TrainedRows
from sangam.trainer_module.transforms.keys import tags_of

_NO_KEY = -1
"""A number less than every key: the one entry of a table without rows, so that it can be searched."""
_ROW, _REMOVED = 1.0, -1.0
"""Last float of a key's entry in the overlay; 0 for a key without an entry."""

# Shape suffixes: n keys, D dimension, S width of a stored row.


class StockTable(ServedTable):
    """The trained rows, never changed, and an overlay of upserted and removed keys, skipped while it is empty.

    Every look-up and every change of the overlay is one operation under its lock: a reader sees a row with its flag,
    and all rows of an `upsert` or none.
    """

    def __init__(self, group: Group, rows: Rows, trained: TrainedRows):
        super().__init__(group, rows)
        self._num_trained = len(trained.keys)
        if not self._num_trained:
            trained = TrainedRows(np.full(1, _NO_KEY), lambda: iter([np.zeros([1, group.dim], np.float32)]))
        order = np.argsort(trained.keys)
        self._keys = tf.Variable(
            trained.keys[order], dtype=tf.int64, shape=[None], trainable=False, name=f"{group.name}_keys"
        )
        row_numbers = np.empty(len(order), np.int64)
        row_numbers[order] = np.arange(len(order))
        defaults, default_of_tag = np.unique(self._defaults, return_inverse=True)
        self._default_of_tag: NDArray[Any] = len(order) + default_of_tag.reshape(-1).astype(np.int64)
        """Number of the row that an unknown id of each tag reads."""
        packed = self.packed(trained, row_numbers, np.tile(defaults.astype(np.float32)[:, None], group.dim))
        # A variable whose rows were written one by one is copied at every read.
        self._rows = tf.Variable(packed.read_value(), shape=packed.shape, trainable=False, name=f"{group.name}_rows")
        # In float32 for any type of rows, as TensorFlow's table has no halves: it holds rows unpacked.
        self._overlay = tf.lookup.experimental.MutableHashTable(
            tf.int64, tf.float32, default_value=tf.zeros([group.dim + 1]), name=f"{group.name}_overlay"
        )

    def _trained_row(self, keys_n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a trained row for each key, and whether it is the key's own."""
        # Gathered from a read value: a variable that is gathered from is copied, at every read or, if its memory is a
        # mapped file, by the first gathering.
        trained = self._keys.read_value()
        last = tf.size(trained, tf.int64) - 1
        row_number_n = tf.minimum(tf.searchsorted(trained, keys_n, out_type=tf.int64), last)
        return row_number_n, tf.equal(tf.gather(trained, row_number_n), keys_n)

    def read(self, keys_n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `ServedTable`. Defaults are rows too: to choose among rows that were read would take longer."""
        trained_n, is_trained_n = self._trained_row(keys_n)
        default_n, stored = self._default_row(keys_n), self._rows.read_value()

        def rows(is_known_n: tf.Tensor) -> tf.Tensor:
            return self.row_type.unpack(tf.gather(stored, tf.where(is_known_n, trained_n, default_n)))

        def overlaid() -> tuple[tf.Tensor, tf.Tensor]:
            overlay = self._overlay.lookup(keys_n)
            later_nD, state_n = overlay[:, : self.group.dim], overlay[:, self.group.dim]
            is_later_n = tf.equal(state_n, _ROW)
            is_left_n = is_trained_n & tf.not_equal(state_n, _REMOVED)
            return tf.where(is_later_n[:, None], later_nD, rows(is_left_n)), is_later_n | is_left_n

        return tf.cond(self._overlay.size() > 0, overlaid, lambda: (rows(is_trained_n), is_trained_n))

    def _default_row(self, keys_n: tf.Tensor) -> tf.Tensor:
        """Returns the row of each key's default; one for all where all are alike."""
        if len(set(self._default_of_tag)) == 1:
            return tf.constant(self._default_of_tag[0])
        return tf.gather(self._default_of_tag, tf.minimum(tags_of(keys_n), len(self._default_of_tag) - 1))

    def find(self, keys_n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `ServedTable`."""
        return self.read(keys_n)

    def insert(self, keys_n: tf.Tensor, stored_nS: tf.Tensor) -> tf.Operation:
        """See `ServedTable`."""
        rows_nD = self.row_type.unpack(stored_nS)
        return self._overlay.insert(keys_n, tf.concat([rows_nD, tf.fill([tf.shape(rows_nD)[0], 1], _ROW)], axis=1))

    def erase(self, keys_n: tf.Tensor) -> tf.Operation:
        """See `ServedTable`."""
        _, is_trained_n = self._trained_row(keys_n)
        trained_m = tf.boolean_mask(keys_n, is_trained_n)
        gone_mD = tf.concat(
            [tf.zeros([tf.size(trained_m), self.group.dim]), tf.fill([tf.size(trained_m), 1], _REMOVED)], 1
        )
        return tf.group(
            self._overlay.insert(trained_m, gone_mD), self._overlay.remove(tf.boolean_mask(keys_n, ~is_trained_n))
        )

    def num_rows(self) -> tf.Tensor:
        """See `ServedTable`; reads the whole overlay, so that it needs no counter that two changes could get wrong."""
        keys_n, values = self._overlay.export()
        state_n = values[:, self.group.dim]
        _, is_trained_n = self._trained_row(keys_n)
        made = tf.math.count_nonzero(tf.equal(state_n, _ROW) & ~is_trained_n)
        return self._num_trained + made - tf.math.count_nonzero(tf.equal(state_n, _REMOVED))

    def variables_by_attribute(self) -> dict[str, tf.Variable]:
        """See `ServedTable`."""
        return {"_keys": self._keys, "_rows": self._rows}

    def release(self) -> tf.Operation:
        """See `ServedTable`. Unused graphs of TensorFlow may still hold the variables."""
        return tf.group(
            self._rows.assign(tf.zeros([0, self.row_type.width], self.row_type.dtype)),
            self._keys.assign(tf.zeros([0], tf.int64)),
            tf.raw_ops.DestroyResourceOp(resource=self._overlay.resource_handle),
        )
