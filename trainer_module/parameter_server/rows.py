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

from sangam.trainer_module.embedding.eviction import Counting, evict
from sangam.trainer_module.embedding.row_optimizers import StepContext
from sangam.trainer_module.embedding.row_store import Observed, RowStore
from sangam.trainer_module.parameter_server.flat_function import FlatFunction
from sangam.trainer_module.parameter_server.wire import MessageError
from sangam.trainer_module.transforms.keys import NO_ID

Arrays = dict[str, NDArray[Any]]

_NO_COUNTS = np.zeros(0, np.int64)

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
        groups = [store.group for store in stores.values()]
        self._tags = [store.counters["asked"].shape[0] for store in stores.values()]
        self._keys = [tf.TensorSpec([None], tf.int64) for _ in groups]
        self._observed = [tf.TensorSpec([None, 2], tf.int32) for group in groups if group.counts_occurrences]
        self._gradients = [tf.TensorSpec([None, group.dim], self._wire) for group in groups]
        asked, number = tf.TensorSpec([2 * sum(self._tags)], tf.int64), tf.TensorSpec([], tf.int64)
        self._find = FlatFunction(self._find_rows, [self._keys, asked])
        self._make = FlatFunction(self._make_rows, [self._keys, self._keys, self._observed, number])
        self._read = FlatFunction(self._read_rows, [self._keys, self._keys])
        self._apply: dict[int, FlatFunction] = {}

    def pull(self, keys: Arrays, observed: Arrays, asked: NDArray[Any], step: int) -> Pulled:
        """Looks up the rows of a training batch, creates those of admitted new keys, and counts the batch.

        Args:
            keys: unique keys, [n] int64 by group.
            observed: see `Pulled`.
            asked: flattened arguments of `RowStore.count_asked`, [groups, 2, tags]; empty if another server counts.
            step: step of the batch.

        Raises:
            MessageError: `asked` has another size.
        """
        size = 2 * sum(self._tags)
        if asked.size not in (0, size):
            raise MessageError(f"expected {size} counts of ids, or none (got {asked.size})")
        numbers = self._found(keys, asked)
        # Nothing of what makes rows is run where no key is new.
        if any(((its == 0) & (keys[name] != NO_ID)).any() for name, its in numbers.items()):
            flat = [*keys.values(), *numbers.values(), *observed.values(), np.int64(step)]
            numbers = self._by_group(self._make(flat))
        return Pulled(keys, observed, numbers, self._layout, self.version)

    def _found(self, keys: Arrays, asked: NDArray[Any] = _NO_COUNTS) -> Arrays:
        counts = asked if asked.size else np.zeros(2 * sum(self._tags), np.int64)
        return self._by_group(self._find([*keys.values(), counts]))

    def embeddings(self, pulled: Pulled) -> Arrays:
        """Returns the current embeddings of a batch: [n, D] by group, in the type of the wire."""
        return self._by_group(self._read([*pulled.keys.values(), *self._numbers(pulled).values()]))

    def read(self, keys: Arrays) -> Arrays:
        """Returns embeddings without creating rows; unknown keys read as their table's default."""
        return self._by_group(self._read([*keys.values(), *self._found(keys).values()]))

    def apply(self, parts: Sequence[Gradients], update: Update) -> bool:
        """Updates every row once, with the sum of the ranks' gradients.

        Returns:
            False if a gradient was not finite: nothing was updated.
        """
        if (apply := self._apply.get(len(parts))) is None:
            scales, real = tf.TensorSpec([len(self.stores)], tf.float32), tf.TensorSpec([], tf.float32)
            of_rank = [self._keys, self._keys, self._gradients, self._observed, scales]
            signature = [[of_rank] * len(parts), tf.TensorSpec([], tf.int64), real, real]
            apply = self._apply[len(parts)] = FlatFunction(self._apply_parts, signature)
        flat: list[Any] = []
        for part in parts:
            flat += [*part.pulled.keys.values(), *self._numbers(part.pulled).values(), *part.by_group.values()]
            flat += [*part.pulled.observed.values(), part.scales]
        (is_finite,) = apply([*flat, np.int64(update.step), np.float32(update.scale), np.float32(update.factor)])
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
            pulled.numbers, pulled.layout = self._found(pulled.keys), self._layout
        return pulled.numbers

    def _by_group(self, tensors: Sequence[tf.Tensor]) -> Arrays:
        return {name: tensor.numpy() for name, tensor in zip(self.stores, tensors, strict=True)}

    def _find_rows(self, keys: Any, asked: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.split(asked, [2 * size for size in self._tags]) if self._tags else []
        for store, part in zip(self.stores.values(), parts, strict=True):
            store.count_asked(*tf.unstack(tf.reshape(part, [2, -1])))
        return [store.find(its_keys) for store, its_keys in zip(self.stores.values(), keys, strict=True)]

    def _make_rows(self, keys: Any, known: Any, observed: Any, step: tf.Tensor) -> list[tf.Tensor]:
        of_groups = zip(self.stores.values(), keys, known, self._seen(observed), strict=True)
        return [store.make(its_keys, its_numbers, seen, step) for store, its_keys, its_numbers, seen in of_groups]

    def _read_rows(self, keys: Any, numbers: Any) -> list[tf.Tensor]:
        return [
            self._to_wire(store.embeddings(its_keys, its_numbers, store.read(its_numbers)))
            for store, its_keys, its_numbers in zip(self.stores.values(), keys, numbers, strict=True)
        ]

    def _seen(self, observed: Sequence[tf.Tensor]) -> list[Observed | None]:
        """Returns what is observed, by group; None for groups that do not count."""
        left = iter(observed)
        return [_observed(next(left)) if each.group.counts_occurrences else None for each in self.stores.values()]

    def _to_wire(self, embeddings: tf.Tensor) -> tf.Tensor:
        if self._wire == tf.float32:
            return embeddings
        is_beyond = tf.abs(embeddings) > self._wire.max
        with tf.control_dependencies([self.overflows.assign_add(tf.math.count_nonzero(is_beyond))]):
            return tf.cast(tf.clip_by_value(embeddings, self._wire.min, self._wire.max), self._wire)

    def _apply_parts(self, parts: Any, step: tf.Tensor, scale: tf.Tensor, rate: tf.Tensor) -> list[tf.Tensor]:
        """Applies the gradients of a rank, or of several in their order, as one step."""
        of_groups, all_seen = [], [self._seen(part[3]) for part in parts]
        for i in range(len(self.stores)):
            keys, numbers, gradients = ([part[kind][i] for part in parts] for kind in range(3))
            if self._wire != tf.float32:
                scales = [part[4][i] for part in parts]
                gradients = [tf.cast(each, tf.float32) * its for each, its in zip(gradients, scales, strict=True)]
            seen = [of_part[i] for of_part in all_seen]
            is_one = len(parts) == 1
            summed = (keys[0], numbers[0], gradients[0], seen[0]) if is_one else _summed(keys, numbers, gradients, seen)
            of_groups.append(summed)
        are_finite = [tf.reduce_all(tf.math.is_finite(gradients)) for _, _, gradients, _ in of_groups]

        def apply() -> tf.Tensor:
            for store, (keys, numbers, gradients, seen) in zip(self.stores.values(), of_groups, strict=True):
                store.apply(keys, numbers, None, gradients, scale, seen, StepContext(step, rate))
            return tf.constant(True)

        is_finite = tf.reduce_all(tf.stack([tf.constant(True), *are_finite]))
        return [tf.cond(is_finite, apply, lambda: tf.constant(False))]


def _summed(
    keys: Sequence[tf.Tensor],
    numbers: Sequence[tf.Tensor],
    gradients: Sequence[tf.Tensor],
    seen: Sequence[Observed | None],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, Observed | None]:
    """Returns the unique keys of several ranks, their row numbers, and sums in the order of the ranks."""
    keys_u, index_n = tf.unique(tf.concat(keys, 0))
    size = tf.size(keys_u)
    # A row may be created between two ranks' pulls: the first has 0, the second its number.
    numbers_u = tf.math.unsorted_segment_max(tf.concat(numbers, 0), index_n, size)
    sums = tf.math.unsorted_segment_sum(tf.concat(gradients, 0), index_n, size)
    all_seen = [each for each in seen if each is not None]
    if not all_seen:
        return keys_u, numbers_u, sums, None
    occurrences, newest = (tf.concat(each, 0) for each in zip(*all_seen, strict=True))
    observed = Observed(
        tf.math.unsorted_segment_sum(occurrences, index_n, size), tf.math.unsorted_segment_max(newest, index_n, size)
    )
    return keys_u, numbers_u, sums, observed


def _observed(both_n2: tf.Tensor) -> Observed:
    return Observed(both_n2[:, 0], both_n2[:, 1])
