"""One rank's rows of one group: a TFRA hash table finds a key's row number, the rows lie in one variable.

A look-up in the hash table costs ten times a read by row number, so the table holds a row number and nothing else.
Row 0 belongs to no key. The table answers 0 for an unknown key, and row 0 is zeros before and after every step: ids
without a row read as zeros, and their gradients are dropped, without a branch or a mask.
"""

import functools
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

import tensorflow as tf
import tensorflow_recommenders_addons.dynamic_embedding as de
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.schemas.derived.sizes import MOST_ROWS
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed
from sangam.trainer_module.dense import fused
from sangam.trainer_module.embedding.admission import AdmissionPolicy
from sangam.trainer_module.embedding.bookkeeping import merged_books, new_books
from sangam.trainer_module.embedding.hashing import initial_rows
from sangam.trainer_module.embedding.in_use import copy_into, copy_of
from sangam.trainer_module.embedding.per_table import PerTable
from sangam.trainer_module.embedding.removed_keys import RemovedKeys
from sangam.trainer_module.embedding.row_optimizers import InPlaceUpdate, StepContext, row_update
from sangam.trainer_module.placement import HOST_ALONE, Placement
from sangam.trainer_module.snapshot import Copies, KeysAndRows
from sangam.trainer_module.transforms.keys import NO_ID, tags_of

_FIRST_INDEX_SIZE = 1 << 14
_RESERVED_BYTES = 256 << 20
INITIAL_SCALE = 0.05
"""New rows start uniform in [-0.05, 0.05), the default of Keras' embeddings."""

COUNTERS = ("asked", "unique", "admitted", "rejected", "evicted", "expired")
"""Counts by table: ids in this rank's batches, and unique ones in each batch; rows made; unique keys of a step left
without a row; rows removed by capacity, and by age."""


class Observed(NamedTuple):
    """Facts of a step's global batch about the keys that this rank owns.

    Attributes:
        occurrences: [n] int32.
        newest: [n] int32, minutes since 1970 of the newest event; 0 where the spec has no event time.
    """

    occurrences: tf.Tensor
    newest: tf.Tensor


def full_store(error: tf.errors.OpError) -> str | None:
    """Returns what is wrong if a store could not grow further; None for other errors of TensorFlow."""
    found = re.search(r"assertion failed: \[(tables: too many rows[^]]*)\]", error.message)
    return found and found[1]


class RowStore(tf.Module):
    """Rows by key, created when their id is admitted; grows by doubling."""

    def __init__(
        self,
        group: Group,
        *,
        seed: int,
        expected_rows: int = 0,
        track_changes: bool = False,
        placement: Placement = HOST_ALONE,
    ):
        """Makes an empty store.

        Args:
            group: group of tables whose rows it holds.
            seed: seed of the initial vectors and of admission.
            expected_rows: room to take at once. Growing later copies the rows and stalls a step.
            track_changes: keep the log that `delta.take_delta` returns and empties. It costs time in every step and
                room in every checkpoint.
            placement: devices; the index is on the host, the rows are where the group declares them.
        """
        super().__init__(name=group.name)
        self.group = group
        self.seed = seed
        self._placement = placement
        self._is_on_device = placement.are_on_device(group)
        self.admission = AdmissionPolicy(group, seed=seed)
        self._update = row_update(group)
        can_be = isinstance(self._update, InPlaceUpdate) and self._update.is_in_place
        self._in_place = cast(InPlaceUpdate, self._update) if can_be and not self._is_on_device else None
        self._default = PerTable(group.tags, lambda table: group.tables[table].default_value)
        self._l2 = PerTable(group.tags, lambda table: group.tables[table].l2)
        num_tags = max(group.tags.values()) + 1
        self.counters = {
            name: tf.Variable(tf.zeros([num_tags], tf.int64), trainable=False, name=f"{group.name}_{name}")
            for name in COUNTERS
        }
        self.removed = RemovedKeys() if track_changes else None
        """Since the last delta; None where changes are not tracked. So is `touched`, one flag a row."""
        self._make_room(expected_rows)

    def _make_room(self, expected_rows: int) -> None:
        name, width = self.group.name, self.group.width
        self._was_filled = False
        index_size = self._room = max(_FIRST_INDEX_SIZE, expected_rows + 1)
        # The kernel gives no memory for pages never written: room for later rows is free, but not on a device.
        reserved = 0 if self._is_on_device else _RESERVED_BYTES // (4 * width)
        capacity = min(max(index_size, reserved), MOST_ROWS + 1)
        self.index = de.CuckooHashTable(
            key_dtype=tf.int64,
            value_dtype=tf.int64,
            default_value=tf.constant([0], tf.int64),
            name=f"{name}_index",
            checkpoint=False,
            init_size=index_size,
        )
        with self.by_rows():
            self.rows = tf.Variable(
                _untouched([capacity, width], tf.float32), shape=[None, width], trainable=False, name=f"{name}_rows"
            )
        self.keys = tf.Variable(_untouched([capacity], tf.int64), shape=[None], trainable=False, name=f"{name}_keys")
        self.touched: tf.Variable | None = None
        if self.removed is not None:
            self.touched = tf.Variable(
                _untouched([capacity], tf.bool), shape=[None], trainable=False, name=f"{name}_touched"
            )
        self.end = tf.Variable(1, dtype=tf.int64, trainable=False, name=f"{name}_end")
        self._clear_row_of_no_key()

    def by_rows(self) -> AbstractContextManager[Any]:
        """Places operations where the rows are."""
        return self._placement.rows(self.group)

    @property
    def _full(self) -> str:
        tables = listed(list(self.group.tables))
        return (
            f"tables: too many rows for one process (got more than {MOST_ROWS:,} of {tables}); use more ranks or "
            "parameter servers, or declare capacity, expire_after_days or admission"
        )

    @property
    def by_number(self) -> tuple[tf.Variable, ...]:
        """The variables that hold something for every row number."""
        return (self.rows, self.keys) if self.touched is None else (self.rows, self.keys, self.touched)

    def mark(self, numbers: tf.Tensor, is_touched: bool) -> list[tf.Operation]:
        """Sets the flags of rows, where changes are tracked; returns the writes."""
        if self.touched is None:
            return []
        flags = tf.fill([tf.size(numbers)], is_touched)
        return [self.touched.scatter_update(tf.IndexedSlices(flags, numbers))]

    def _clear_row_of_no_key(self) -> tf.Operation:
        with self.by_rows():
            return self.rows.scatter_update(tf.IndexedSlices(tf.zeros([1, self.group.width]), [0]))

    def find(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns row numbers, 0 for keys without a row: [n] int64 to [n] int64. Inserts nothing."""
        return tf.reshape(self.index.lookup(keys), [-1])

    def find_or_make(self, keys: tf.Tensor, observed: Observed | None, step: tf.Tensor) -> tf.Tensor:
        """Returns row numbers, and creates a row for every admitted new key; 0 for the others.

        Args:
            keys: [n] int64, each once.
            observed: [n]; needed where a table of the group has admission, expiry or a capacity.
            step: step of this batch; int64 scalar.
        """
        return self.make(keys, self.find(keys), observed, step)

    def make(self, keys: tf.Tensor, known_numbers: tf.Tensor, observed: Observed | None, step: tf.Tensor) -> tf.Tensor:
        """Creates rows as `find_or_make`, given what `find` returned."""
        is_unknown = tf.equal(known_numbers, 0) & tf.not_equal(keys, NO_ID)
        return tf.cond(
            tf.reduce_any(is_unknown),
            lambda: self._admit(keys, known_numbers, is_unknown, observed, step),
            lambda: known_numbers,
        )

    def _admit(
        self,
        keys: tf.Tensor,
        known_numbers: tf.Tensor,
        is_unknown: tf.Tensor,
        observed: Observed | None,
        step: tf.Tensor,
    ) -> tf.Tensor:
        new_indices = tf.reshape(tf.where(is_unknown), [-1])
        newest = None
        if not self.admission.admits_all:
            assert observed is not None
            candidates = tf.gather(keys, new_indices)
            admitted = self.admission.admits(candidates, tf.gather(observed.occurrences, new_indices), step)
            self._count("rejected", tf.boolean_mask(candidates, ~admitted))
            new_indices = tf.boolean_mask(new_indices, admitted)
        new_keys = tf.gather(keys, new_indices)
        if self.group.tracks_usage:
            assert observed is not None
            newest = tf.gather(observed.newest, new_indices)
        self._count("admitted", new_keys)
        numbers = self._append(new_keys, newest)
        return tf.tensor_scatter_nd_update(known_numbers, new_indices[:, None], numbers)

    def _append(self, keys: tf.Tensor, newest: tf.Tensor | None) -> tf.Tensor:
        """Appends rows; returns their numbers."""
        first = self.end.read_value()
        numbers = first + tf.range(tf.size(keys, tf.int64))
        end = first + tf.size(keys, tf.int64)
        with tf.control_dependencies([self._grow_to(end)]):
            w = initial_rows(keys, self.group.dim, INITIAL_SCALE, self.seed)
            parts = [w, self._update.start(keys, w)]
            if newest is not None:
                parts.append(new_books(newest))
            new_rows = tf.concat(parts, 1)
            with self.by_rows():
                written = self.rows.scatter_update(tf.IndexedSlices(new_rows, numbers))
            writes = [
                written,
                self.keys.scatter_update(tf.IndexedSlices(keys, numbers)),
                *self.mark(numbers, True),
                self.index.insert(keys, numbers[:, None]),
                self.end.assign(end),
            ]
        with tf.control_dependencies(writes):
            return tf.identity(numbers)

    def _grow_to(self, needed: tf.Tensor) -> tf.Tensor:
        # Not of its value: after a scatter, reading it would copy it.
        capacity = tf.raw_ops.VariableShape(input=self.keys.handle, out_type=tf.int64)[0]

        def grow() -> tf.Tensor:
            more = tf.minimum(tf.maximum(needed, 2 * capacity), MOST_ROWS + 1)
            has_room = tf.raw_ops.Assert(condition=needed <= more, data=[self._full])
            numbers = tf.range(capacity)
            writes = []
            for variable in self.by_number:
                # After a scatter, reading and assigning would copy; copying the larger buffer would touch all of it.
                copy_on_write = tf.raw_ops.DisableCopyOnRead(resource=variable.handle)
                shape = [more, *variable.shape[1:]]
                with self.by_rows() if variable is self.rows else self._placement.host():
                    with tf.control_dependencies([has_room, copy_on_write]):
                        old = variable.read_value()
                    with tf.control_dependencies([variable.assign(_untouched(shape, variable.dtype))]):
                        writes.append(variable.scatter_update(tf.IndexedSlices(old, numbers)))
            with tf.control_dependencies(writes):
                return tf.constant(True)

        return tf.cond(needed > capacity, grow, lambda: tf.constant(False))

    def read(self, numbers: tf.Tensor) -> tf.Tensor:
        """Returns the input of `embeddings` and `apply` by row number: [n] int64 to [n, dim], or whole [n, width]."""
        if self._in_place is not None:
            return fused.read_rows(self.rows, numbers, self.group.dim)
        with self.by_rows():
            return tf.gather(self.rows, numbers)

    def embeddings(self, keys: tf.Tensor, numbers: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings of rows from `read`, their table's default for keys without one: [n, dim]."""
        with self.by_rows():
            w = rows if rows.shape[1] == self.group.dim else rows[:, : self.group.dim]
        if self._default.same == 0.0:
            return w
        no_row = tf.equal(numbers, 0) & tf.not_equal(keys, NO_ID)
        defaults = tf.cast(no_row, tf.float32)[:, None] * self._default(keys)
        with self.by_rows():
            return w + defaults

    def apply(
        self,
        keys: tf.Tensor,
        numbers: tf.Tensor,
        rows: tf.Tensor | None,
        gradients: tf.Tensor,
        scale: tf.Tensor | float,
        observed: Observed | None,
        context: StepContext,
    ) -> None:
        """Writes rows back after one optimizer step.

        Args:
            keys: [n] int64, each once.
            numbers: row numbers from `find_or_make`, [n] int64.
            rows: result of `read`; None: read here, if the update needs them.
            gradients: [n, dim].
            scale: factor of the gradients.
            observed: [n]; needed where the group tracks usage.
            context: the step under way.
        """
        dim, slots = self.group.dim, self.group.num_slot_floats
        with self.by_rows():
            gradients = gradients * scale
            if rows is None and (self._in_place is None or self._l2.same != 0.0):
                rows = self.read(numbers)
            if self._l2.same != 0.0:
                assert rows is not None
                gradients += self._l2(keys) * rows[:, :dim]
            seen = None
            if self.group.tracks_usage:
                assert observed is not None
                seen = (observed.newest, observed.occurrences)
            if self._in_place is not None:
                write = self._in_place.apply(self.rows, numbers, gradients, seen, context)
            else:
                assert rows is not None
                w, kept = rows[:, :dim], rows[:, dim : dim + slots]
                parts = list(self._update(keys, w, kept, gradients, context))
                if seen is not None:
                    parts.append(merged_books(rows[:, dim + slots :], *seen))
                write = self.rows.scatter_update(tf.IndexedSlices(tf.concat(parts, 1), numbers))
            with self._placement.host():
                writes = [write, *self.mark(numbers, True)]
            with tf.control_dependencies(writes):
                self._clear_row_of_no_key()

    def _count(self, counter: str, keys: tf.Tensor) -> None:
        self.counters[counter].assign_add(self._by_table(keys))

    def _by_table(self, keys: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
        size = self.counters["asked"].shape[0]
        counts = tf.math.bincount(tags_of(keys), weights, minlength=size, maxlength=size, dtype=tf.int64)
        return tf.ensure_shape(tf.cast(counts, tf.int64), [size])

    def counts_by_table(self, keys: tf.Tensor, occurrences: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the argument of `count_asked` for a batch's unique keys and their numbers of occurrences."""
        return self._by_table(keys, tf.cast(occurrences, tf.int64)), self._by_table(keys)

    def count_asked(self, asked: tf.Tensor, unique: tf.Tensor) -> None:
        """Counts a batch: its ids, and the unique ones among them, by table."""
        self.counters["asked"].assign_add(asked)
        self.counters["unique"].assign_add(unique)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.end) - 1

    def contents(self, copies: Copies | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns copies of all keys and their whole rows, in the order of row numbers: [n] int64, [n, width].

        Args:
            copies: memory to take for them.
        """
        if copies is None:
            return self.in_use(self.keys), self.in_use(self.rows)
        return self._copied(self.keys, "keys", copies), self._copied(self.rows, "rows", copies)

    def _copied(self, variable: tf.Variable, name: str, copies: Copies) -> NDArray[Any]:
        take = functools.partial(copies.take, f"{self.group.name}/{name}")
        return copy_into(variable, int(self.end), self._device_of(variable), take)

    def in_use(self, variable: tf.Variable, columns: slice = slice(None)) -> NDArray[Any]:
        """Returns a copy of the part of `rows`, `keys` or `touched` that belongs to keys, row 1 first.

        Args:
            variable: variable of this store.
            columns: columns of `rows`.
        """
        return copy_of(variable, int(self.end), columns, self._device_of(variable))

    def _device_of(self, variable: tf.Variable) -> str | None:
        """Returns the device of a variable; None: the host."""
        return self._placement.accelerator if self._is_on_device and variable is self.rows else None

    def fill(self, blocks: Iterable[KeysAndRows], num_rows: int) -> None:
        """Replaces all rows.

        Args:
            blocks: keys [n], each once over all blocks, and rows [n, width]; a block may lie where the last one lay.
            num_rows: number of rows in all blocks.

        Raises:
            UserError: more than a process can hold.
        """
        if num_rows > MOST_ROWS:
            raise UserError(self._full)
        needed = num_rows + num_rows // 8
        if self._was_filled or self.num_rows or needed > self._room:
            self._make_room(needed)
        # Also after a failure half-way: the rows until then are in the index.
        self._was_filled = True
        end = 1
        for keys, rows in blocks:
            numbers = tf.range(end, end + len(keys), dtype=tf.int64)
            with self.by_rows():
                self.rows.scatter_update(tf.IndexedSlices(rows, numbers))
            self.keys.scatter_update(tf.IndexedSlices(keys, numbers))
            self.mark(numbers, False)
            self.index.insert(tf.constant(keys), numbers[:, None])
            end += len(keys)
        self.end.assign(end)


def _untouched(shape: Any, dtype: tf.DType) -> tf.Tensor:
    return tf.raw_ops.Empty(shape=tf.cast(shape, tf.int32), dtype=dtype, init=False)
