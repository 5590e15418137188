"""Rows in a hash table of TensorFlow Recommenders Addons: for very large tables, and servers that update many rows."""

from typing import Any

import tensorflow as tf
import tensorflow_recommenders_addons.dynamic_embedding as de

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.serving.row_types import Rows
from sangam.trainer_module.serving.table import ServedTable
from sangam.trainer_module.serving.trained_rows import TrainedRows

_ROOM = 9 / 8
"""Slots per row that a server allocates: a table that is nearly full doubles."""
_LEAST_SLOTS = 1 << 10


class _Table(de.CuckooHashTable):
    """A table saved with rows that it does not hold: holding them would take twice their memory.

    Attributes:
        to_save: keys and packed rows; None: the table's own.
        slots: number of slots of the saved table.
    """

    to_save: tuple[tf.Tensor, tf.Tensor] | None = None
    slots = _LEAST_SLOTS

    def _create_resource(self) -> tf.Tensor:
        self._init_size = _LEAST_SLOTS if tf.executing_eagerly() else self.slots
        return super()._create_resource()

    def export(self, name: str | None = None) -> Any:
        """Returns the rows to save. In a graph they are read by an operation, so that a served model can be saved."""
        if self.to_save is not None and tf.executing_eagerly():
            return self.to_save
        return super().export(name)


class TfraTable(ServedTable):
    """One raw cuckoo table from key to packed row; an operation reads or writes each row under its lock.

    It is created empty, and its rows go straight into the SavedModel; `fill` loads them for look-ups in this process.
    """

    def __init__(self, group: Group, rows: Rows, trained: TrainedRows):
        super().__init__(group, rows)
        self._table = _Table(
            key_dtype=tf.int64,
            value_dtype=self.row_type.dtype,
            default_value=tf.zeros([self.row_type.width], self.row_type.dtype),
            name=f"{group.name}_rows",
        )
        self._table.slots = max(_LEAST_SLOTS, int(len(trained.keys) * _ROOM))
        self._keys, self._rows = tf.constant(trained.keys), self.packed(trained, None).read_value_no_copy()
        self._table.to_save = self._keys, self._rows

    def fill(self) -> None:
        """Loads the rows into this process's own table."""
        self._table.insert(self._keys, self._rows)

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
