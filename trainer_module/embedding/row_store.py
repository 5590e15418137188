"""One rank's rows of one dimension: a TFRA hash table finds a key's row number, the rows lie in one variable.

A look-up in the hash table costs ten times a read by row number, so the table holds 8 bytes a key and nothing else.
"""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_recommenders_addons.dynamic_embedding as de
from numpy.typing import NDArray

from trainer_module.embedding.hashing import initial_rows
from trainer_module.embedding.row_optimizers import RowUpdate

_ABSENT = -1
_FIRST_CAPACITY = 1 << 14
INITIAL_SCALE = 0.05
"""New rows start uniform in [-0.05, 0.05), the default of Keras' embeddings."""


class RowStore(tf.Module):
    """Rows `[embedding | optimizer slots]`, found by key, made on first sight, growing by doubling."""

    def __init__(self, *, dim: int, update: RowUpdate, seed: int, name: str):
        """Makes an empty store.

        Args:
            dim: floats per embedding.
            update: the rows' optimizer; it says how many slots a row has.
            seed: of the initial vectors.
            name: unique in the process.
        """
        super().__init__(name=name)
        self.dim = dim
        self.width = dim * (1 + update.num_slots)
        self._update = update
        self._seed = seed
        self._row_of_key = de.CuckooHashTable(
            key_dtype=tf.int64,
            value_dtype=tf.int64,
            default_value=tf.constant([_ABSENT], tf.int64),
            name=f"{name}_index",
            checkpoint=False,
            init_size=_FIRST_CAPACITY,
        )
        self._rows = tf.Variable(
            tf.zeros([_FIRST_CAPACITY, self.width]), shape=[None, self.width], trainable=False, name=f"{name}_rows"
        )
        self._num_rows = tf.Variable(0, dtype=tf.int64, trainable=False, name=f"{name}_num_rows")

    def find(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns row numbers, -1 for unknown keys: [n] int64 to [n] int64. Inserts nothing."""
        return tf.reshape(self._row_of_key.lookup(keys), [-1])

    def find_or_make(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns row numbers, making a row for every unknown key.

        Args:
            keys: [n] int64, each once.
        """
        found = self.find(keys)
        is_new = tf.equal(found, _ABSENT)
        num_new = tf.reduce_sum(tf.cast(is_new, tf.int64))
        return tf.cond(num_new > 0, lambda: self._make(keys, found, is_new, num_new), lambda: found)

    def _make(self, keys: tf.Tensor, found: tf.Tensor, is_new: tf.Tensor, num_new: tf.Tensor) -> tf.Tensor:
        new_keys = tf.boolean_mask(keys, is_new)
        first = self._num_rows.read_value()
        numbers = first + tf.range(num_new)
        with tf.control_dependencies([self._grow_to(first + num_new)]):
            embeddings = initial_rows(new_keys, self.dim, INITIAL_SCALE, self._seed)
            slots = tf.fill([num_new, self.width - self.dim], self._update.slot_start)
            fresh = tf.IndexedSlices(tf.concat([embeddings, slots], 1), numbers)
            writes = [
                self._rows.scatter_update(fresh),
                self._row_of_key.insert(new_keys, numbers[:, None]),
                self._num_rows.assign(first + num_new),
            ]
        with tf.control_dependencies(writes):
            return tf.tensor_scatter_nd_update(found, tf.where(is_new), numbers)

    def _grow_to(self, needed: tf.Tensor) -> tf.Tensor:
        capacity = tf.shape(self._rows, tf.int64)[0]

        def double() -> tf.Tensor:
            extra = tf.maximum(capacity, needed - capacity)
            grown = tf.concat([self._rows.read_value(), tf.zeros([extra, self.width])], 0)
            with tf.control_dependencies([self._rows.assign(grown)]):
                return tf.constant(True)

        return tf.cond(needed > capacity, double, lambda: tf.constant(False))

    def read(self, numbers: tf.Tensor) -> tf.Tensor:
        """Returns whole rows by number: [n] int64 to [n, width]."""
        return tf.gather(self._rows, numbers)

    def embeddings_or_zeros(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns embeddings by key, zeros for unknown ones: [n] int64 to [n, dim]. Inserts nothing."""
        numbers = self.find(keys)
        known = tf.cast(numbers >= 0, tf.float32)[:, None]
        return tf.gather(self._rows, tf.maximum(numbers, 0))[:, : self.dim] * known

    def apply(self, numbers: tf.Tensor, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> tf.Operation:
        """Writes rows back after one optimizer step.

        Args:
            numbers: [n] int64, each once.
            rows: [n, width], as `read` gave them.
            gradients: [n, dim].
            step: global step, from 1.
        """
        return self._rows.scatter_update(tf.IndexedSlices(self._update(rows, gradients, step), numbers))

    def contents(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns all keys, sorted, and their whole rows: [n] int64, [n, width] float32."""
        keys, numbers = (part.numpy() for part in self._row_of_key.export())
        order = np.argsort(keys)
        keys, numbers = keys[order], numbers.reshape(-1)[order]
        return keys, tf.gather(self._rows, numbers).numpy()
