"""Rows in a hash table of TensorFlow Recommenders Addons: for very large tables and servers that update all of it."""

import numpy as np
import tensorflow as tf
import tensorflow_recommenders_addons.dynamic_embedding as de

from schemas.groups import Group
from trainer_module.serving.row_types import Rows
from trainer_module.serving.table import ServedTable
from trainer_module.serving.trained_rows import TrainedRows

NAMESPACE = "TFRA"
_ROOM = 9 / 8
"""Slots asked for, per row: a table that is nearly full doubles."""
_LEAST_SIZE = 1 << 10


class TfraTable(ServedTable):
    """One raw cuckoo table from key to packed row; an operation reads or writes each row under its lock."""

    def __init__(self, group: Group, rows: Rows, trained: TrainedRows):
        super().__init__(group, rows)
        self._table = de.CuckooHashTable(
            key_dtype=tf.int64,
            value_dtype=self.row_type.dtype,
            default_value=tf.zeros([self.row_type.width], self.row_type.dtype),
            name=f"{group.name}_rows",
            # Also the size with which a server makes it, before it reads the rows.
            init_size=max(_LEAST_SIZE, int(len(trained.keys) * _ROOM)),
        )
        for part, block in trained.parts():
            self._table.insert(trained.keys[part], self.row_type.pack(tf.constant(np.ascontiguousarray(block))))

    def find(self, keys_n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """See `ServedTable`."""
        stored_nS, is_known_n = self._table.lookup(keys_n, return_exists=True)
        return self.row_type.unpack(tf.ensure_shape(stored_nS, [None, self.row_type.width])), is_known_n

    def insert(self, keys_n: tf.Tensor, stored_nS: tf.Tensor) -> tf.Operation:
        """See `ServedTable`."""
        return self._table.insert(keys_n, stored_nS)

    def erase(self, keys_n: tf.Tensor) -> tf.Operation:
        """See `ServedTable`."""
        return self._table.remove(keys_n)

    def num_rows(self) -> tf.Tensor:
        """See `ServedTable`."""
        return self._table.size()

    def release(self) -> tf.Operation:
        """See `ServedTable`. TFRA itself never destroys a table."""
        return tf.raw_ops.DestroyResourceOp(resource=self._table.resource_handle)
