"""One server's rows: read ahead of the step that needs them, updated by gradients that arrive after it.

They are the rows of `embedding.row_store`. Its functions are not re-entrant: the caller holds one lock around every
method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.embedding.eviction import Counting, evict
from sangam.trainer_module.embedding.row_optimizers import StepContext
from sangam.trainer_module.embedding.row_store import Observed, RowStore

Arrays = dict[str, NDArray[Any]]

# Shape suffixes: n keys, D dimension.


@dataclass
class Pulled:
    """A batch's keys on this server, kept until its gradients arrive.

    Attributes:
        keys: unique keys, [n] int64 by group.
        observed: [n, 2] int32 by group, occurrences and newest minute, for groups that count occurrences.
        numbers: row numbers of the keys, [n] int64 by group.
        layout: the store's layout version at the lookup: removing rows moves others.
        version: number of updates applied before the rows were read.
    """

    keys: Arrays
    observed: Arrays
    numbers: Arrays
    layout: int
    version: int


class Gradients(NamedTuple):
    """A batch's gradients of this server's rows.

    Attributes:
        pulled: the keys.
        by_group: [n, D] float32 or float16, sums over the rank's examples.
        scales: inverse of the factor that scaled the gradients for the wire, by group.
    """

    pulled: Pulled
    by_group: Arrays
    scales: NDArray[Any]


class Update(NamedTuple):
    """One optimizer step.

    Attributes:
        step: the optimizer step, from 1.
        scale: factor of the gradients: 1 / the number of examples that they are summed over.
        factor: factor of the learning rates.
    """

    step: int
    scale: float
    factor: float


class Rows:
    """The rows of a server, by group of tables.

    Attributes:
        stores: row stores by group.
        version: number of updates applied since the attempt began.
        newest: minute of the newest event trained on.
        overflows: embedding values beyond the range of float16, sent as its largest.
    """

    def __init__(self, stores: Mapping[str, RowStore], *, half: bool):
        """Takes the stores of a server.

        Args:
            stores: empty or filled; rows are loaded only before training.
            half: whether embeddings and gradients are sent as float16.
        """
        self.stores = dict(stores)
        self.version, self.newest = 0, 0
        self.overflows = tf.Variable(0, dtype=tf.int64, trainable=False, name="overflows")
        self._layout = 0
        self._wire = tf.float16 if half else tf.float32
        groups: dict[str, Group] = {name: store.group for name, store in stores.items()}
        counting = [name for name, group in groups.items() if group.counts_occurrences]
        keys = {name: tf.TensorSpec([None], tf.int64) for name in groups}
        observed = {name: tf.TensorSpec([None, 2], tf.int32) for name in counting}
        gradients = {name: tf.TensorSpec([None, group.dim], self._wire) for name, group in groups.items()}
        number, real = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32)
        scales = tf.TensorSpec([len(groups)], tf.float32)
        update = [number, real, real]
        self._find_or_make = _function(self._find_or_make_rows, keys, observed, number)
        self._read = _function(self._read_rows, keys, keys)
        self._find = _function(self._find_rows, keys)
        self._apply_one = _function(self._apply_gradients, keys, keys, gradients, scales, observed, *update)
        self._apply_sum = _function(self._apply_summed, keys, keys, gradients, observed, *update)
        self._unscale = _function(self._to_float, gradients, scales)

    def pull(self, keys: Arrays, observed: Arrays, asked: NDArray[Any], step: int) -> Pulled:
        """Looks up the rows of a training batch, creates those of admitted new keys, and counts the batch.

        Args:
            keys: unique keys, [n] int64 by group.
            observed: see `Pulled`.
            asked: flattened arguments of `RowStore.count_asked`, [groups, 2, tags]; empty if another server counts.
            step: step of the batch.
        """
        if asked.size:
            tags = [store.counters["asked"].shape[0] for store in self.stores.values()]
            parts = np.split(asked, np.cumsum([2 * size for size in tags])[:-1])
            for store, part in zip(self.stores.values(), parts, strict=True):
                store.count_asked(*part.reshape(2, -1))
        numbers = self._find_or_make(_tensors(keys), _tensors(observed), tf.constant(step, tf.int64))
        return Pulled(keys, observed, _arrays(numbers), self._layout, self.version)

    def embeddings(self, pulled: Pulled) -> Arrays:
        """Returns the current embeddings of a batch: [n, D] by group, in the type of the wire."""
        return _arrays(self._read(_tensors(pulled.keys), _tensors(self._numbers(pulled))))

    def read(self, keys: Arrays) -> Arrays:
        """Returns embeddings without creating rows; unknown keys read as their table's default."""
        tensors = _tensors(keys)
        return _arrays(self._read(tensors, self._find(tensors)))

    def apply(self, parts: Sequence[Gradients], update: Update) -> bool:
        """Updates every row once, with the sum of the ranks' gradients.

        Returns:
            False if a gradient was not finite: nothing was updated.
        """
        context = (
            tf.constant(update.step, tf.int64),
            tf.constant(update.scale, tf.float32),
            tf.constant(update.factor, tf.float32),
        )
        keys, numbers, observed = [], [], []
        for part in parts:
            keys.append(part.pulled.keys)
            numbers.append(self._numbers(part.pulled))
            observed.append(part.pulled.observed)
        if len(parts) == 1:
            sent = _tensors(parts[0].by_group), tf.constant(parts[0].scales)
            is_finite = self._apply_one(_tensors(keys[0]), _tensors(numbers[0]), *sent, _tensors(observed[0]), *context)
        else:
            floats = [_arrays(self._unscale(_tensors(part.by_group), tf.constant(part.scales))) for part in parts]
            joined = (_tensors(_joined(each)) for each in (keys, numbers, floats, observed))
            is_finite = self._apply_sum(*joined, *context)
        if not bool(is_finite):
            return False
        self.version += 1
        return True

    def evict(self) -> Counting[None]:
        """Removes rows by their tables' expiry and capacity, see `eviction.evict`."""
        now = self.newest
        for store in self.stores.values():
            if store.group.counts_occurrences:
                yield from evict(store, now=now)
                self._layout += 1

    def _numbers(self, pulled: Pulled) -> Arrays:
        """Returns the row numbers of a batch's keys, looked up again if rows have moved."""
        if pulled.layout != self._layout:
            pulled.numbers, pulled.layout = _arrays(self._find(_tensors(pulled.keys))), self._layout
        return pulled.numbers

    def _find_or_make_rows(self, keys: Any, observed: Any, step: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            name: store.find_or_make(keys[name], _observed(observed.get(name)), step)
            for name, store in self.stores.items()
        }

    def _find_rows(self, keys: Any) -> dict[str, tf.Tensor]:
        return {name: store.find(keys[name]) for name, store in self.stores.items()}

    def _read_rows(self, keys: Any, numbers: Any) -> dict[str, tf.Tensor]:
        return {
            name: self._to_wire(store.embeddings(keys[name], numbers[name], store.read(numbers[name])))
            for name, store in self.stores.items()
        }

    def _to_wire(self, embeddings: tf.Tensor) -> tf.Tensor:
        if self._wire == tf.float32:
            return embeddings
        is_beyond = tf.abs(embeddings) > self._wire.max
        with tf.control_dependencies([self.overflows.assign_add(tf.math.count_nonzero(is_beyond))]):
            return tf.cast(tf.clip_by_value(embeddings, self._wire.min, self._wire.max), self._wire)

    def _to_float(self, gradients: Any, scales: tf.Tensor) -> dict[str, tf.Tensor]:
        if self._wire == tf.float32:
            return dict(gradients)
        return {name: tf.cast(gradients[name], tf.float32) * scales[i] for i, name in enumerate(self.stores)}

    def _apply_gradients(
        self, keys: Any, numbers: Any, gradients: Any, scales: tf.Tensor, observed: Any, *update: tf.Tensor
    ) -> tf.Tensor:
        return self._apply_finite(keys, numbers, self._to_float(gradients, scales), observed, *update)

    def _apply_summed(self, keys: Any, numbers: Any, gradients: Any, observed: Any, *update: tf.Tensor) -> tf.Tensor:
        """Applies the gradients of several ranks, concatenated in rank order, as one step."""
        own_keys, own_numbers, sums, seen = {}, {}, {}, {}
        for name in self.stores:
            own_keys[name], index_n = tf.unique(keys[name])
            size = tf.size(own_keys[name])
            # A row may be created between two ranks' pulls: the first has 0, the second its number.
            own_numbers[name] = tf.math.unsorted_segment_max(numbers[name], index_n, size)
            sums[name] = tf.math.unsorted_segment_sum(gradients[name], index_n, size)
            if name in observed:
                seen[name] = tf.stack(
                    [
                        tf.math.unsorted_segment_sum(observed[name][:, 0], index_n, size),
                        tf.math.unsorted_segment_max(observed[name][:, 1], index_n, size),
                    ],
                    1,
                )
        return self._apply_finite(own_keys, own_numbers, sums, seen, *update)

    def _apply_finite(
        self, keys: Any, numbers: Any, gradients: Any, observed: Any, step: tf.Tensor, scale: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        are_finite = [tf.reduce_all(tf.math.is_finite(gradients[name])) for name in self.stores]
        is_finite = tf.reduce_all(tf.stack([tf.constant(True), *are_finite]))

        def apply() -> tf.Tensor:
            for name, store in self.stores.items():
                rows, context = store.read(numbers[name]), StepContext(step, rate)
                seen = _observed(observed.get(name))
                store.apply(keys[name], numbers[name], rows, gradients[name], scale, seen, context)
            return tf.constant(True)

        return tf.cond(is_finite, apply, lambda: tf.constant(False))


def _observed(both_n2: tf.Tensor | None) -> Observed | None:
    return None if both_n2 is None else Observed(both_n2[:, 0], both_n2[:, 1])


def _function(body: Any, *signature: Any) -> Any:
    return tf.function(body, input_signature=signature, autograph=False)


def _tensors(arrays: Arrays) -> dict[str, tf.Tensor]:
    return {name: tf.constant(array) for name, array in arrays.items()}


def _arrays(tensors: Mapping[str, tf.Tensor]) -> Arrays:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _joined(parts: Sequence[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
