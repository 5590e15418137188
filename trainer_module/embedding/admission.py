"""Admission of ids to a row: all ids, frequent ids, or a random share. Decided on the key's owner."""

import numpy as np
import tensorflow as tf

from sangam.schemas.derived.groups import Group
from sangam.schemas.spec.tables import CountAdmission, RandomAdmission
from sangam.trainer_module.embedding.hashing import mix64, uniform
from sangam.trainer_module.embedding.per_table import PerTable
from sangam.trainer_module.snapshot import Arrays

_DEPTH = 4
_LARGEST = 2**30
_OCCURRENCES_A_CELL = 8


class Sketch(tf.Module):
    """Counts of keys in bounded memory: never less than the truth, more where keys share all their cells.

    A count-min sketch with conservative update (Estan, Varghese: New directions in traffic measurement and accounting,
    SIGCOMM 2002, section 3.3). So that one-off ids of the past do not fill it forever, all cells are halved after
    8 occurrences a cell (Einziger, Friedman, Manes: TinyLFU, ACM ToS 2017, section 3.3).
    """

    def __init__(self, num_cells: int, name: str):
        """Takes the number of cells in each of its four rows."""
        super().__init__(name=name)
        self._num_cells = num_cells
        self._cells = tf.Variable(tf.zeros([_DEPTH * num_cells], tf.int32), trainable=False, name=f"{name}_cells")
        self._added = tf.Variable(0, dtype=tf.int64, trainable=False, name=f"{name}_added")

    def add(self, keys: tf.Tensor, occurrences: tf.Tensor) -> tf.Tensor:
        """Returns the counts after adding: [n] int64, each once, and [n] int32 to [n] int32."""
        cells_nd = self._cells_of(keys)
        counts = tf.minimum(tf.reduce_min(tf.gather(self._cells, cells_nd), axis=1) + occurrences, _LARGEST)
        raised = tf.repeat(counts, _DEPTH)
        writes = [
            self._cells.scatter_max(tf.IndexedSlices(raised, tf.reshape(cells_nd, [-1]))),
            self._added.assign_add(tf.reduce_sum(tf.cast(occurrences, tf.int64))),
        ]
        with tf.control_dependencies(writes):
            return tf.identity(counts)

    def _cells_of(self, keys: tf.Tensor) -> tf.Tensor:
        salts = tf.constant([[(row + 1) * 0xD1B54A32D192ED03 & (2**64 - 1) for row in range(_DEPTH)]], tf.uint64)
        mixed = tf.bitwise.right_shift(mix64(tf.bitcast(keys, tf.uint64)[:, None] + salts), tf.constant(1, tf.uint64))
        in_row = tf.math.floormod(tf.bitcast(mixed, tf.int64), self._num_cells)
        return in_row + tf.range(_DEPTH, dtype=tf.int64) * self._num_cells

    def age(self) -> None:
        """Halves all cells when enough has been counted since the last time."""
        if int(self._added) >= _OCCURRENCES_A_CELL * self._num_cells:
            self._cells.assign(self._cells // 2)
            self._added.assign(0)

    def snapshot(self) -> Arrays:
        """Returns its state; the states of several ranks add up."""
        return {"sketch_cells": self._cells.numpy().copy(), "sketch_added": np.array([int(self._added)])}

    def restore(self, state: Arrays) -> None:
        """Restores a state; ignores one of another size after a change of the spec: counting restarts."""
        if len(state.get("sketch_cells", ())) == _DEPTH * self._num_cells:
            self._cells.assign(state["sketch_cells"])
            self._added.assign(int(state["sketch_added"][0]))


class AdmissionPolicy(tf.Module):
    """Decides for a group's keys that have no row yet."""

    def __init__(self, group: Group, *, seed: int):
        super().__init__(name=f"{group.name}_gatekeeper")
        self._seed = seed
        self.sketch = Sketch(group.num_counters, f"{group.name}_sketch") if group.num_counters else None
        admissions = {name: table.admission for name, table in group.tables.items()}
        self.admits_all = not any(admissions.values())

        def at_least(table: str) -> float:
            admission = admissions[table]
            return admission.at_least if isinstance(admission, CountAdmission) else 0.0

        def refused(table: str) -> float:
            admission = admissions[table]
            return 1.0 - admission.probability if isinstance(admission, RandomAdmission) else 0.0

        self._at_least, self._refused = PerTable(group.tags, at_least), PerTable(group.tags, refused)

    def admits(self, keys: tf.Tensor, occurrences: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Returns which keys get a row.

        Args:
            keys: [n] int64 without a row, each once.
            occurrences: [n] int32, in this step over all ranks.
            step: the draw's stream, together with the seed and the key.

        Returns:
            [n] bool.
        """
        admitted = tf.ones_like(keys, tf.bool)
        if self.sketch is not None:
            # Keys of tables without a threshold are counted too, but once: they get a row at once.
            counts = tf.cast(self.sketch.add(keys, occurrences), tf.float32)
            admitted = counts[:, None] >= self._at_least(keys)
            admitted = tf.reshape(admitted, [-1])
        if self._refused.same != 0.0:
            # c occurrences are c draws: refused by all of them with probability (1 - p)^c.
            draws = uniform(keys, tf.cast(step, tf.uint64) + tf.constant(self._seed + 1, tf.uint64))
            refused = tf.reshape(self._refused(keys) * tf.ones_like(draws[:, None]), [-1])
            admitted &= draws >= tf.pow(refused, tf.cast(occurrences, tf.float32)) * tf.cast(refused > 0, tf.float32)
        return admitted
